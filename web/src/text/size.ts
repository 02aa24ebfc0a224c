/** A number of bytes as people say it. Pure. */

const UNITS = ["B", "KB", "MB", "GB"];

/** Binary steps, as the server counts its limits: 1024 bytes are 1 KB. */
export function sizeOf(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit++;
  }
  const shown = value < 10 && unit > 0 ? Math.round(value * 10) / 10 : Math.round(value);
  return `${shown} ${UNITS[unit]}`;
}
