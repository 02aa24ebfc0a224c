/** A conversation as a Markdown file, each answer followed by the sources it had. */
import type { Detail, Message } from "../conversations/stored.ts";
import { longMoment } from "../i18n/moments.ts";
import { visible } from "../text/visible.ts";
import { words } from "./words.ts";

export function asMarkdown(conversation: Detail): string {
  const parts = [
    `# ${visible(conversation.title)}`,
    `${longMoment(conversation.created_at)} · ${words.base}: ${visible(conversation.base)}`,
  ];
  for (const message of conversation.messages)
    parts.push(...(message.role === "user" ? question(message) : answer(message)));
  return `${parts.join("\n\n")}\n`;
}

function question(message: Message): string[] {
  return [`## ${words.you}`, message.content.replace(/^/gm, "> ")];
}

function answer(message: Message): string[] {
  const parts = [`## ${words.answer}`];
  if (message.content !== "") parts.push(message.content);
  if (message.stopped) parts.push(`*${words.stopped}.*`);
  if (message.error_message !== null) parts.push(`*${message.error_message}*`);
  else if (message.evidence !== null) parts.push(`*${verdict(message)}.*`);
  if (message.sources.length > 0) {
    const lines = message.sources.map(({ n, title, locator, excerpt }) => {
      const where = [visible(title), visible(locator)].filter((part) => part !== "").join(", ");
      return `${n}. **${where}**: ${excerpt.replace(/\s+/g, " ").trim()}`;
    });
    parts.push(`### ${words.sourcesTitle}`, lines.join("\n"));
  }
  return parts;
}

function verdict(message: Message): string {
  return message.evidence === "cited" ? words.cited(message.cited.length) : words[message.evidence ?? "none"];
}

/** Have the browser save it under the conversation's title. */
export function saveAsMarkdown(conversation: Detail): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([asMarkdown(conversation)], { type: "text/markdown;charset=utf-8" }));
  link.download = `${
    visible(conversation.title)
      .replace(/[\\/:*?"<>|]+/g, " ")
      .trim()
      .slice(0, 80) || "conversation"
  }.md`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
