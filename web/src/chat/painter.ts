/**
 * When to draw: in an animation frame, not for each delta, and never so often that drawing takes more than a third
 * of the time. A long last block costs more per frame; it is then drawn less often, and the page stays smooth.
 */
export class Painter {
  readonly #draw: () => void;
  #frame = 0;
  #pause: ReturnType<typeof setTimeout> | undefined;
  #restUntil = 0;

  constructor(draw: () => void) {
    this.#draw = draw;
  }

  /** Draw in the next frame that is due. */
  soon(): void {
    if (this.#frame !== 0 || this.#pause !== undefined) return;
    const rest = this.#restUntil - performance.now();
    if (rest > 0) {
      this.#pause = setTimeout(() => {
        this.#pause = undefined;
        this.#request();
      }, rest);
    } else {
      this.#request();
    }
  }

  /** Draw at once: the end of a turn is shown also where no frame comes, as in a hidden tab. */
  now(): void {
    this.cancel();
    this.#draw();
  }

  cancel(): void {
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#pause);
    this.#frame = 0;
    this.#pause = undefined;
  }

  #request(): void {
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      const began = performance.now();
      this.#draw();
      // A task behind the frame: by then styles, layout and painting are counted, too.
      setTimeout(() => {
        const took = performance.now() - began;
        this.#restUntil = took > 12 ? performance.now() + 2 * took : 0;
      });
    });
  }
}
