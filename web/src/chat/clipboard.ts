/** Copying, also where the browser's clipboard is closed to a page (an address that isn't https or loopback). */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

function copyBySelection(text: string): boolean {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "unseen";
  document.body.append(field);
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  return copied;
}

/** The address at which a message is shown. */
export function linkTo(messageId: string): string {
  return `${window.location.origin}${window.location.pathname}#m-${messageId}`;
}
