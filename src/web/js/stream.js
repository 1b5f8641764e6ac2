// The log's events as they come. One tab holds the connection, whichever has the lock; it passes each event on to the others.
// The cursor is kept after an event was taken in, so that nothing is missed and the cursor never runs ahead.
import { authorised } from './api.js';
import { LEFT, get, set, tell } from './store.js';

const SILENT_MS = 45_000;
const channel = new BroadcastChannel('reedclaw-events');
const cursorName = () => `reedclaw-cursor:${get().who.tenant}`;

/** Waits, but no longer than until the browser has a network again. */
export function pause(ms) {
  return new Promise((done) => {
    const timer = setTimeout(over, ms);
    function over() {
      clearTimeout(timer);
      removeEventListener('online', over);
      done();
    }
    addEventListener('online', over);
  });
}

/** A signal that aborts when the browser loses its network, when the session ends, or when `left` does. */
export function untilOffline(left) {
  const ended = new AbortController();
  const abort = () => ended.abort();
  addEventListener('offline', abort, { signal: ended.signal });
  addEventListener(LEFT, abort, { signal: ended.signal });
  left?.addEventListener('abort', abort);
  return ended;
}

/** Reads frames from a response; calls `take` with each. */
export async function frames(response, take, alive = () => {}) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    alive();
    buffer += value;
    for (let end = buffer.indexOf('\n\n'); end >= 0; end = buffer.indexOf('\n\n')) {
      const frame = { id: null, event: 'message', data: '' };
      for (const line of buffer.slice(0, end).split('\n')) {
        if (line.startsWith('id: ')) frame.id = line.slice(4);
        else if (line.startsWith('event: ')) frame.event = line.slice(7);
        else if (line.startsWith('data: ')) frame.data += line.slice(6);
      }
      buffer = buffer.slice(end + 2);
      if (frame.data) take({ ...frame, data: JSON.parse(frame.data) });
    }
  }
}

function take(frame) {
  if (frame.event === 'system') {
    if (frame.data.kind === 'caught_up') {
      set({ connection: 'live', since: null });
      // Without a cursor, what happened between the page's first look and now came by no stream.
      if (!localStorage.getItem(cursorName())) tell({ type: 'resync' });
    }
    if (frame.data.kind === 'resync') {
      localStorage.removeItem(cursorName());
      tell({ type: 'resync' });
    }
    return;
  }
  tell(frame.data);
  if (frame.id) localStorage.setItem(cursorName(), frame.id);
}

let isLeading = false;

async function lead() {
  isLeading = true;
  for (let wait = 500; get().session === 'in'; wait = Math.min(wait * 2, 8_000)) {
    const ended = untilOffline();
    let heard = Date.now();
    let isCaughtUp = false;
    const watch = setInterval(() => Date.now() - heard > SILENT_MS && ended.abort(), 1_000);
    try {
      const cursor = localStorage.getItem(cursorName());
      const headers = cursor ? { 'Last-Event-ID': cursor } : {};
      set({ connection: 'catching up' });
      const response = await authorised('GET', '/sse/tenant?topics=timeline', { headers, signal: ended.signal });
      wait = 250;
      await frames(response, (frame) => {
        if (frame.event === 'system' && frame.data.kind === 'caught_up') isCaughtUp = true;
        channel.postMessage(frame);
        take(frame);
      }, () => {
        heard = Date.now();
        // A single request has failed; the gateway is there.
        if (isCaughtUp && get().connection === 'offline') set({ connection: 'live', since: null });
      });
    } catch (error) {
      if (error.status === 410) localStorage.removeItem(cursorName());
    }
    clearInterval(watch);
    ended.abort();
    if (get().session !== 'in') break;
    set({ connection: 'offline', since: get().since ?? new Date().toISOString() });
    channel.postMessage({ event: 'state', data: 'offline' });
    await pause(wait);
  }
  isLeading = false;
}

/** Follows the log for as long as the session lasts. */
export function follow() {
  channel.onmessage = ({ data: frame }) => {
    if (frame.event === 'asked') {
      if (isLeading) channel.postMessage({ event: 'state', data: get().connection });
    } else if (frame.event === 'state') {
      set({ connection: frame.data, since: frame.data === 'offline' ? get().since ?? new Date().toISOString() : null });
    } else {
      if (get().connection !== 'live') set({ connection: 'live', since: null });
      take(frame);
    }
  };
  navigator.locks.request('reedclaw-stream', lead);
  // A tab that doesn't lead is as live as the one that does.
  channel.postMessage({ event: 'asked' });
}
