/** What went wrong, in the words of the server, or in ours where it could not be reached. */
import { Refusal } from "../http/request.ts";
import { inLanguage } from "../i18n/words.ts";

const words = inLanguage({
  en: {
    unreachable: "The server can't be reached. Check that it runs, then try again.",
    unexpected: (said: string) => `Something unexpected happened: ${said}`,
  },
  zh: {
    unreachable: "无法连接服务器。请确认它在运行，然后重试。",
    unexpected: (said: string) => `发生了意外：${said}`,
  },
});

export function troubleOf(error: unknown): string {
  if (error instanceof Refusal) return error.status === 0 ? words.unreachable : error.message;
  return words.unexpected(error instanceof Error ? error.message : String(error));
}
