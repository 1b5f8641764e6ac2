// The only fetch of the console. A token that has run out is renewed by the cookie, once, and by one tab at a time: a cookie
// that is used twice ends the session.
import { buildIdentityHeaders } from './identity.js';
import { get, leave, set } from './store.js';

export class ApiError extends Error {
  constructor(status, error) {
    super(error?.message ?? `the gateway answered ${status}`);
    this.status = status;
    this.code = error?.code ?? 'unknown';
    this.context = error?.context ?? {};
    this.error = error ?? {};
  }
}

const offline = () => {
  if (get().connection !== 'offline') set({ connection: 'offline', since: new Date().toISOString() });
};

/** Sends a request and returns the response. */
export async function request(method, path, { body, raw, headers, signal, bare } = {}) {
  const all = { ...(bare ? {} : buildIdentityHeaders(get().who)), ...headers };
  if (body !== undefined) all['Content-Type'] = 'application/json';
  try {
    return await fetch(path, {
      method, headers: all, signal, body: raw ?? (body === undefined ? undefined : JSON.stringify(body)),
      credentials: 'same-origin', cache: 'no-store', redirect: 'error',
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    offline();
    throw new ApiError(0, { code: 'offline', message: 'The gateway does not answer.' });
  }
}

async function problem(response) {
  const value = await response.json().catch(() => null);
  const error = new ApiError(response.status, value?.error);
  error.whole = value;
  error.retryAfterS = Number(response.headers.get('Retry-After')) || null;
  return error;
}

/** Takes the session that an answer of `/auth/pair` or `/auth/refresh` holds. */
function begin(session) {
  const place = session.memberships[0];
  const { user, who: { tenant } } = get();
  // Somebody else has signed in, in another tab: the cookie is theirs, and nothing of this page is.
  if (user !== null && (user !== session.user || tenant !== place.tenant)) return location.reload();
  const who = { ...get().who, mode: place.mode, tenant: place.tenant, token: session.access_token };
  return set({ who, user: session.user, role: place.role, session: 'in', refused: null });
}

export async function signIn(code) {
  const response = await request('POST', '/auth/pair', { body: { code }, bare: true });
  if (!response.ok) throw await problem(response);
  begin(await response.json());
}

/** Renews the token; false if the session is over. */
export function renew(old) {
  return navigator.locks.request('reedclaw-refresh', async () => {
    if (get().who.token !== old) return true;
    const response = await request('POST', '/auth/refresh', { body: {}, bare: true });
    if (response.ok) {
      begin(await response.json());
      return true;
    }
    if (response.status === 401) leave();
    return false;
  });
}

export async function signOut() {
  await request('POST', '/auth/logout', { body: {} }).catch(() => null);
  leave();
}

/** A request with the token; it is renewed once if it has run out. */
export async function authorised(method, path, options = {}) {
  const token = get().who.token;
  let response = await request(method, path, options);
  if (response.status === 401 && (await renew(token))) response = await request(method, path, options);
  if (!response.ok) throw await problem(response);
  return response;
}

/** A request whose answer is JSON. */
export async function api(method, path, body, options = {}) {
  const response = await authorised(method, path, { ...options, body });
  return response.status === 204 ? null : response.json();
}

/** Gives a file to the browser as a download; nothing of it is shown in the page. */
export async function download(path, name) {
  const response = await authorised('GET', path);
  const url = URL.createObjectURL(await response.blob());
  const link = Object.assign(document.createElement('a'), { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1_000);
}
