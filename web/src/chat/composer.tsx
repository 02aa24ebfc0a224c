/** Where the question is written. Enter sends, but never while an input method is composing. */
import { useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useLayoutEffect } from "preact/hooks";

import type { OpenConversation } from "./open.ts";
import { words } from "./words.ts";

interface Props {
  conversation: OpenConversation;
  base: string;
  field: RefObject<HTMLTextAreaElement | null>;
}

export function Composer({ conversation, base, field }: Props) {
  const text = useSignal("");
  const { running } = conversation;
  useLayoutEffect(() => fit(field.current), [text.value, field]);

  const send = () => {
    const message = text.value.trim();
    if (message === "" || conversation.running) return;
    conversation.ask(message, { base });
    text.value = "";
    field.current?.focus();
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <div class="composer-box">
        <textarea
          ref={field}
          rows={1}
          dir="auto"
          aria-label={words.yourQuestion}
          placeholder={words.placeholder}
          value={text.value}
          onInput={(event) => (text.value = event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || event.shiftKey || composing(event)) return;
            event.preventDefault();
            send();
          }}
        />
        {running ? (
          <button
            type="button"
            class="button"
            disabled={conversation.stopping.value || !conversation.stoppable}
            onClick={() => void conversation.stop()}
          >
            {conversation.stopping.value ? words.stopping : words.stop}
          </button>
        ) : (
          <button type="submit" class="button primary" disabled={text.value.trim() === ""}>
            {words.send}
          </button>
        )}
      </div>
      <p class="composer-hint small soft">{words.sendHint}</p>
    </form>
  );
}

/** The Enter that ends a composition isn't one that sends; Safari reports it after the end, as key code 229. */
function composing(event: KeyboardEvent): boolean {
  return event.isComposing || event.keyCode === 229;
}

function fit(field: HTMLTextAreaElement | null): void {
  if (field === null) return;
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight}px`;
}
