/**
 * Bytes of an event stream -> events, by WHATWG HTML 9.2.6: lines end with CR, LF or CRLF and with nothing else
 * (U+2028 is text), data lines are joined with LF, `:` begins a comment, an id holds until the next one.
 *
 * A chunk may end anywhere, also inside a character or between CR and LF.
 */

export interface StreamEvent {
  type: string;
  data: string;
  /** The last id seen, "" before the first. */
  id: string;
}

export class StreamParser {
  /** What `retry:` last asked for, in milliseconds; null until it did. */
  retryMs: number | null = null;

  #decoder = new TextDecoder("utf-8");
  #rest = "";
  #afterReturn = false;
  #type = "";
  #data: string[] = [];
  #id = "";

  /** The events that the chunk completes, in order. */
  push(chunk: Uint8Array): StreamEvent[] {
    let text = this.#decoder.decode(chunk, { stream: true });
    if (this.#afterReturn && text !== "") {
      if (text.startsWith("\n")) text = text.slice(1);
      this.#afterReturn = false;
    }
    this.#afterReturn ||= text.endsWith("\r");
    const lines = (this.#rest + text).split(/\r\n|\r|\n/);
    this.#rest = lines.pop() ?? "";
    const events: StreamEvent[] = [];
    for (const line of lines) {
      if (line !== "") this.#field(line);
      else if (this.#data.length > 0) events.push(this.#event());
      else this.#type = "";
    }
    return events;
  }

  #event(): StreamEvent {
    const event = { type: this.#type || "message", data: this.#data.join("\n"), id: this.#id };
    this.#type = "";
    this.#data = [];
    return event;
  }

  #field(line: string): void {
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const name = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (name === "event") this.#type = value;
    else if (name === "data") this.#data.push(value);
    else if (name === "id" && !value.includes("\0")) this.#id = value;
    else if (name === "retry" && /^[0-9]+$/.test(value)) this.retryMs = Number(value);
  }
}
