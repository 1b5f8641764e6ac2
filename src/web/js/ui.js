// Small parts that screens share. Text from models, tools and people is text, never markup; characters that would change how
// it reads are shown as their numbers.
import { h } from '../vendor/preact.js';
import { useEffect, useRef, useState } from '../vendor/hooks.js';
import htm from '../vendor/htm.js';
import { useStore } from './store.js';

export const html = htm.bind(h);

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Text with hidden and turning characters visible. */
export const visible = (text) =>
  String(text ?? '').replace(HIDDEN, (sign) => `\\u{${sign.codePointAt(0).toString(16)}}`);

export const RISK = { low: ['good', '○ low'], medium: ['warn', '◐ medium'], high: ['bad', '● high'], blocked: ['bad', '⊘ blocked'] };

export function Risk({ of }) {
  const [tone, text] = RISK[of] ?? ['', of];
  return html`<span class=${`badge ${tone}`}>risk ${text}</span>`;
}

export function Title({ children }) {
  const heading = useRef(null);
  useEffect(() => {
    document.title = `${heading.current.textContent} · ReedClaw`;
    heading.current.focus({ preventScroll: true });
  }, []);
  return html`<h1 tabindex="-1" ref=${heading}>${children}</h1>`;
}

export const time = (text) => (text ? new Date(text).toLocaleString() : '');

/** A number with its noun. */
export const count = (number, noun) => `${number} ${noun}${number === 1 ? '' : 's'}`;

/** A time in seconds in the largest unit of which it has two. */
export function span(seconds) {
  const [unit, noun] = [[86_400, 'day'], [3_600, 'hour'], [60, 'minute'], [1, 'second']].find(([unit]) => seconds >= 2 * unit) ?? [1, 'second'];
  return count(Math.floor(seconds / unit), noun);
}

export function Failed({ error, retry }) {
  if (!error) return null;
  return html`<div class="notice bad" role="alert">
    <p>${visible(error.message)} ${error.code ? html`<span class="soft">(${error.code})</span>` : null}</p>
    ${retry ? html`<button onClick=${retry}>Try again</button>` : null}
  </div>`;
}

/** Loads something, and again when `again` changes. */
export function useLoaded(load, again) {
  const [state, change] = useState({ value: null, error: null, isLoading: true });
  const reload = () => load().then(
    (value) => change({ value, error: null, isLoading: false }),
    (error) => change((old) => ({ ...old, error, isLoading: false })),
  );
  useEffect(() => { reload(); }, [again]);
  const connection = useStore((state) => state.connection);
  useEffect(() => { if (connection === 'live' && state.error?.status === 0) reload(); }, [connection]);
  return { ...state, reload };
}

/** Whether buttons that write can be used. */
export const useOnline = () => useStore((state) => state.connection) !== 'offline';

/** The lines that differ between two texts, as a list of [sign, line]. */
export function difference(old, now) {
  // What follows the last line end is a line only if just one of them ends without it.
  const isWhole = [old, now].every((text) => !text || text.endsWith('\n'));
  const linesOf = (text) => (text ? (isWhole ? text.slice(0, -1) : text).split('\n') : []);
  const [a, b] = [linesOf(old), linesOf(now)];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const around = 3;
  const lines = [];
  for (const line of a.slice(Math.max(0, start - around), start)) lines.push([' ', line]);
  for (const line of a.slice(start, a.length - end)) lines.push(['-', line]);
  for (const line of b.slice(start, b.length - end)) lines.push(['+', line]);
  for (const line of b.slice(b.length - end, b.length - end + around)) lines.push([' ', line]);
  return lines;
}
