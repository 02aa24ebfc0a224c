/** Whether the server knows who asks. Where it doesn't, any answer says so with 401, and the page asks for a login. */

import { signal } from "@preact/signals";

/** What the page sends along with whatever changes something: proof that the request is its own. Source: app/api/access.py. */
export const PAGE = { "x-turnstream": "page" } as const;

/** An answer was refused since nobody is logged in. */
export const loginNeeded = signal(false);

let answered = false;
let shown = false;

/** Takes note of an answer's status. */
export function noteStatus(status: number): void {
  if (status === 401) {
    if (!loginNeeded.value) shown = answered;
    loginNeeded.value = true;
  } else if (status > 0 && status < 400) {
    answered = true;
  }
}

/** Goes on after a login: where the page has shown something already, it stays as it is, with what was typed into it. */
export function loggedIn(reload: () => void): void {
  if (!shown) reload();
  loginNeeded.value = false;
}
