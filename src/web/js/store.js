// The state that screens share, and the hook by which they follow it.
import { useEffect, useState } from '../vendor/hooks.js';

const state = {
  who: { mode: 'lab', tenant: 'local', project: sessionStorage.getItem('reedclaw-project') ?? 'default', token: null },
  user: null,
  role: 'viewer',
  /** 'starting' | 'out' | 'in' */
  session: 'starting',
  /** 'live' | 'catching up' | 'offline' */
  connection: 'catching up',
  since: null,
  questions: [],
  stopped: false,
  said: '',
  alarm: '',
};
const followers = new Set();

export const get = () => state;

export function set(change) {
  Object.assign(state, change);
  for (const follower of followers) follower();
}

/** Follows one part of the state. */
export function useStore(select) {
  const [value, change] = useState(() => select(state));
  useEffect(() => {
    const follow = () => change(() => select(state));
    followers.add(follow);
    follow();
    return () => followers.delete(follow);
  }, []);
  return value;
}

const listeners = new Set();

/** Calls `listener` with each event of the log that arrives; returns the function that ends that. */
export function onEvent(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function tell(event) {
  for (const listener of listeners) listener(event);
}

/** Says something to a screen reader. */
export function say(text) {
  set({ said: text });
}
