/** Who asks, and the page's login. Source: app/api/session.py. */

import { request } from "../http/request.ts";

/** `scope` is the most that is allowed in any base. */
export interface Session {
  readonly auth: "none" | "token" | "oidc";
  readonly owner: string;
  readonly scope: "read" | "write" | "admin";
}

export function getSession(): Promise<Session> {
  return request(["api", "session"]);
}

/** The token becomes a cookie that no script can read. */
export function logIn(token: string): Promise<Session> {
  return request(["api", "session"], { method: "POST", body: { token } });
}

export function logOut(): Promise<void> {
  return request(["api", "session"], { method: "DELETE" });
}
