// The state that screens share, and the hook by which they follow it.
import { useEffect, useState } from '../vendor/hooks.js';

/** The parts of the state that belong to one person; the next one begins with these values. */
const PERSONAL = {
  user: null,
  role: 'viewer',
  /** The open questions; null as long as they aren't known. */
  questions: null,
  stopped: false,
  /** A text above the screen, until the next screen. */
  notice: null,
  said: '',
  alarm: '',
};
/** The name of the event that ends what belongs to a session. */
export const LEFT = 'reedclaw-left';
const state = {
  ...PERSONAL,
  who: { mode: 'lab', tenant: 'local', project: sessionStorage.getItem('reedclaw-project') ?? 'default', token: null },
  /** 'starting' | 'out' | 'in' */
  session: 'starting',
  /** Why the last sign-in by a link failed. */
  refused: null,
  /** 'live' | 'catching up' | 'offline' */
  connection: 'catching up',
  since: null,
};
const followers = new Set();

export const get = () => state;

export function set(change) {
  Object.assign(state, change);
  for (const follower of followers) follower();
}

/** Ends the session: the next person who signs in finds nothing of it. */
export function leave() {
  set({ ...PERSONAL, session: 'out', who: { ...state.who, token: null } });
  // Streams that go on would bring what the next one may not see.
  dispatchEvent(new Event(LEFT));
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

/** The same at once, and also if it was the last text that was said. */
export function warn(text) {
  set({ alarm: '' });
  setTimeout(() => set({ alarm: text }), 50);
}
