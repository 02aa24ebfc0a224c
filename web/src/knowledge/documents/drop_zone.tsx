/** Where files come in: dropped, or chosen. */
import { useRef, useState } from "preact/hooks";

import { sizeOf } from "../../text/size.ts";
import type { Uploads } from "./uploads.ts";
import { words } from "./words.ts";

interface Props {
  readonly uploads: Uploads;
  /** The largest file that the server takes, null while that isn't known. */
  readonly maxBytes: number | null;
}

export function DropZone({ uploads, maxBytes }: Props) {
  const [over, setOver] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  const most = maxBytes === null ? null : sizeOf(maxBytes);

  function add(files: readonly File[], folders: ReadonlySet<string>): void {
    uploads.add(files, (file) => {
      if (folders.has(file.name)) return words.folder;
      return maxBytes !== null && most !== null && file.size > maxBytes ? words.tooLarge(most) : null;
    });
  }

  function drop(event: DragEvent): void {
    event.preventDefault();
    setOver(false);
    const data = event.dataTransfer;
    if (data !== null) add([...data.files], foldersOf(data));
  }

  return (
    <div
      class={`docs-drop ${over ? "over" : ""}`}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setOver(false);
      }}
      onDrop={drop}
    >
      <p>
        {words.drop}{" "}
        <button type="button" class="button small" onClick={() => input.current?.click()}>
          {words.choose}
        </button>
      </p>
      <p class="soft small">{words.kinds(most)}</p>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        aria-label={words.choose}
        onChange={(event) => {
          add([...(event.currentTarget.files ?? [])], new Set());
          event.currentTarget.value = ""; // the same file may be chosen again
        }}
      />
    </div>
  );
}

/** The names of what was dropped that are folders: a browser hands those over as files that can't be read. */
function foldersOf(data: DataTransfer): ReadonlySet<string> {
  const entries = [...data.items].map((item) => item.webkitGetAsEntry());
  return new Set(entries.filter((entry) => entry?.isDirectory).map((entry) => entry?.name ?? ""));
}
