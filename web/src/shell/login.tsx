/** The login, over everything else while the server doesn't know who asks; and who is logged in, with the way out. */
import { useEffect, useRef, useState } from "preact/hooks";

import { getSession, logIn, logOut, type Session } from "../api/session.ts";
import { troubleOf } from "../api/trouble.ts";
import { Refusal } from "../http/request.ts";
import { loggedIn } from "../http/signed_in.ts";
import "./login.css";
import { words } from "./login_words.ts";

export function Login() {
  const dialog = useRef<HTMLDialogElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const [trouble, setTrouble] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => dialog.current?.showModal(), []);

  async function submitted(event: Event): Promise<void> {
    event.preventDefault();
    setBusy(true);
    setTrouble(null);
    try {
      await logIn(field.current?.value.trim() ?? "");
      loggedIn(() => location.reload());
    } catch (error) {
      setTrouble(error instanceof Refusal && error.status === 401 ? words.refused : troubleOf(error));
      setBusy(false);
      field.current?.focus();
    }
  }

  return (
    <dialog ref={dialog} class="login" aria-labelledby="login-title" onCancel={(event) => event.preventDefault()}>
      <form onSubmit={(event) => void submitted(event)}>
        <h1 id="login-title">{words.title}</h1>
        <p id="login-why">{words.why}</p>
        <label for="login-token">{words.token}</label>
        <input
          id="login-token"
          ref={field}
          type="password"
          required
          autoFocus
          autocomplete="current-password"
          spellcheck={false}
          aria-describedby={trouble === null ? "login-why" : "login-trouble"}
          aria-invalid={trouble !== null}
        />
        <p id="login-trouble" class="login-trouble" role="alert">
          {trouble}
        </p>
        <button type="submit" class="button primary" disabled={busy}>
          {busy ? words.checking : words.submit}
        </button>
      </form>
    </dialog>
  );
}

/** Who is logged in, at the foot of the navigation; nothing where nobody is asked who they are. */
export function LoggedIn() {
  const [session, setSession] = useState<Session | null>(null);
  const [trouble, setTrouble] = useState<string | null>(null);
  useEffect(() => {
    getSession().then(setSession, (error: unknown) => {
      if (!(error instanceof Refusal) || error.status !== 401) setTrouble(troubleOf(error));
    });
  }, []);
  if (trouble !== null) return <p class="logged-in">{trouble}</p>;
  if (session === null || session.auth === "none") return null;
  return (
    <p class="logged-in">
      <span title={session.owner}>{session.owner}</span>
      <button
        type="button"
        class="button quiet small"
        onClick={() => void logOut().then(() => location.assign("/"), (error: unknown) => setTrouble(troubleOf(error)))}
      >
        {words.logOut}
      </button>
    </p>
  );
}
