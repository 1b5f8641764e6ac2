// Small parts that screens share. Text from models, tools and people is text, never markup; characters that would change how
// it reads are shown as their numbers.
import { h } from '../vendor/preact.js';
import { useEffect, useRef, useState } from '../vendor/hooks.js';
import htm from '../vendor/htm.js';
import { onEvent, useStore } from './store.js';

export const html = htm.bind(h);

// Controls but tab and line feed, and what `base::text::is_invisible` lists.
const SIGNS = String.raw`\u{0}-\u{8}\u{b}-\u{1f}\u{7f}-\u{9f}\u{ad}\u{34f}\u{61c}\u{115f}\u{1160}\u{17b4}\u{17b5}\u{180b}-\u{180f}\u{200b}-\u{200f}`
  + String.raw`\u{2028}-\u{202e}\u{2060}-\u{206f}\u{2800}\u{3164}\u{fe00}-\u{fe0d}\u{feff}\u{ffa0}\u{fff0}-\u{fffb}\u{13430}-\u{1343f}`
  + String.raw`\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}`;
const SELECTORS = String.raw`\u{fe0e}\u{fe0f}`;
const HIDDEN = new RegExp(`[${SIGNS}${SELECTORS}]`, 'gu');
// A selector makes an emoji of a sign such as ⚠, as models write them.
const HIDDEN_IN_PROSE = new RegExp(`[${SIGNS}]|(?<!\\p{Extended_Pictographic})[${SELECTORS}]`, 'gu');
const number = (sign) => `\\u{${sign.codePointAt(0).toString(16)}}`;

/** Text with hidden and turning characters visible. */
export const visible = (text) => String(text ?? '').replace(HIDDEN, number);

/** The same for what a model or a person writes to be read, where emoji are emoji. */
export const prose = (text) => String(text ?? '').replace(HIDDEN_IN_PROSE, number);

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

/** A button for what can't be undone: it asks before it acts. `of` is the name of the thing. */
export function Twice({ word, of, disabled, act }) {
  const [isSure, ask] = useState(false);
  const [first, keep] = [useRef(null), useRef(null)];
  const isBack = useRef(false);
  useEffect(() => {
    if (isSure) keep.current.focus();
    else if (isBack.current) first.current?.focus();
    isBack.current = isSure;
  }, [isSure]);
  if (!isSure) {
    return html`<button key="first" ref=${first} class="danger" disabled=${disabled} aria-label=${`${word} ${visible(of)}`} onClick=${() => ask(true)}>${word}…</button>`;
  }
  return html`<span key="second" class="row"><button class="danger" disabled=${disabled} onClick=${() => { ask(false); act(); }}>${word} ${visible(of)}</button>
    <button ref=${keep} onClick=${() => ask(false)}>Keep</button></span>`;
}

export const time = (text) => (text ? new Date(text).toLocaleString() : '');

/** A number with its noun. */
export const count = (number, noun) => `${number} ${noun}${number === 1 ? '' : 's'}`;

/** What a limit bounds, such as `calls of shop per day`. */
export const limitOf = ({ name, project, user, per }) =>
  [name, project && `of ${project}`, user && `by ${user}`, per !== 'total' && `per ${per}`].filter(Boolean).join(' ');

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

/** Says that there is nothing, but only if that is known: not while it loads, and not without a connection. */
export function None({ isKnown, error, children }) {
  const online = useOnline();
  if (isKnown && online && !error) return html`<p class="soft">${children}</p>`;
  return error ? null : html`<p class="soft" role="status">${online ? 'Loading…' : 'Not known: the gateway does not answer.'}</p>`;
}

/** Calls `again` with each event of the log whose type matches, and after a lost connection. */
export function useEvents(types, again) {
  const now = useRef(again);
  now.current = again;
  useEffect(() => onEvent(({ type }) => { if (type === 'resync' || types.test(type)) now.current(); }), []);
}

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
