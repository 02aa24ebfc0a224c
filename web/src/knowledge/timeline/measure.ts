/** How wide words are when they are drawn, so that nothing is drawn over them. */

/** The font of the plot's labels; timeline.css gives them the same. */
const LABEL_FONT =
  "12.5px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'PingFang SC', 'Noto Sans CJK SC', sans-serif";

const known = new Map<string, number>();
let context: CanvasRenderingContext2D | null | undefined;

export function labelWidth(label: string): number {
  let width = known.get(label);
  if (width === undefined) {
    context ??= document.createElement("canvas").getContext("2d");
    if (context === null) return label.length * 13;
    context.font = LABEL_FONT;
    known.set(label, (width = Math.ceil(context.measureText(label).width)));
  }
  return width;
}

/** The longest label that is drawn; the table and the card have the whole one. */
const LABEL_CHARS = 48;

export function shortLabel(label: string): string {
  const chars = [...label];
  return chars.length <= LABEL_CHARS
    ? label
    : `${chars
        .slice(0, LABEL_CHARS - 1)
        .join("")
        .trimEnd()}…`;
}
