/** Keeps a scroller at its end while it grows, as long as the reader is there; scrolling up lets go of it. */
export class StickyEnd {
  readonly #scroller: HTMLElement;
  readonly #onAway: (away: boolean) => void;
  readonly #sizes: ResizeObserver;
  #held = true;
  #top = 0;

  constructor(scroller: HTMLElement, content: HTMLElement, onAway: (away: boolean) => void) {
    this.#scroller = scroller;
    this.#onAway = onAway;
    this.#sizes = new ResizeObserver(() => this.#keep());
    this.#sizes.observe(content);
    this.#sizes.observe(scroller);
    scroller.addEventListener("scroll", this.#scrolled, { passive: true });
  }

  /** Go to the end and stay there. */
  go(): void {
    this.#held = true;
    this.#keep();
    this.#onAway(false);
  }

  /** Stay where the reader is. */
  leave(): void {
    this.#held = false;
  }

  close(): void {
    this.#sizes.disconnect();
    this.#scroller.removeEventListener("scroll", this.#scrolled);
  }

  #keep(): void {
    if (this.#held) this.#scroller.scrollTop = this.#scroller.scrollHeight;
  }

  readonly #scrolled = (): void => {
    const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
    const left = scrollHeight - clientHeight - scrollTop;
    if (scrollTop < this.#top - 1 && left > 2) this.#held = false;
    else if (left < 24) this.#held = true;
    this.#top = scrollTop;
    this.#onAway(!this.#held && left > clientHeight / 2);
  };
}
