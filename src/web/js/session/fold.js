// The list of a shared session's lines, folded from its frames; the same for a live session and for a recording. Pure.

const TEXT_MAX = 64 * 1024;
const ITEMS_MAX = 2_000;

/** What a program has printed, as text: without sequences, with each row as it was at the end. */
export function plain(text) {
  return text.replace(/\x1b(?:\[[0-?]*[ -/]*[@-~]|[ -/]*[0-~])/g, '').replace(/\r+\n/g, '\n').replace(/^.*\r(?=[^\n])/gm, '')
    .replace(/[^\n]\x08/g, '').replace(/[\x00-\x08\x0b-\x1f\x7f]/g, '');
}

const cut = (text) => (text.length > TEXT_MAX ? `…${text.slice(-TEXT_MAX)}` : text);

/** Changes the last item of a kind; returns the same list if there is none. */
function changeLast(items, isMeant, change) {
  const at = items.findLastIndex(isMeant);
  if (at < 0) return items;
  const copy = items.slice();
  copy[at] = { ...copy[at], ...change(copy[at]) };
  return copy;
}

const isLine = (item) => item.k === 'l';

/** Takes a frame in; returns the next list. */
export function fold(items, frame) {
  switch (frame.k) {
    case 'o': return changeLast(items, isLine, (line) => ({ raw: cut((line.raw ?? '') + frame.d) }));
    case 'c': return changeLast(items, (item) => isLine(item) && item.to === 'shell', () => ({ status: frame.status, ms: frame.ms }));
    case 'l': case 'q': case 'a': return [...items, frame].slice(-ITEMS_MAX);
    case 'e': return takeEvent(items, frame.event);
    default: return items;
  }
}

function takeEvent(items, event) {
  const last = items[items.length - 1];
  const isOpen = last?.k === 'e' && last.event.event === 'text';
  if (event.event === 'text' && isOpen) {
    return [...items.slice(0, -1), { ...last, event: { ...last.event, text: cut(last.event.text + event.text) } }];
  }
  if (event.event === 'answered' && items.some((item) => item.k === 'e' && item.event.event === 'text')) return items;
  if (event.event === 'tool_done') {
    const isCall = (item) => item.k === 'e' && item.event.event === 'tool_requested' && item.event.id === event.id;
    return changeLast(items, isCall, () => ({ done: event }));
  }
  if (event.event === 'tool_denied') {
    const isCall = (item) => item.k === 'e' && item.event.event === 'tool_requested' && item.event.id === event.id;
    return [...changeLast(items, isCall, () => ({ isDenied: true })), { k: 'e', event }].slice(-ITEMS_MAX);
  }
  if (['thought', 'usage', 'tool_approved'].includes(event.event)) return items;
  return [...items, { k: 'e', event }].slice(-ITEMS_MAX);
}

/** The list of a snapshot. */
export function begin(snapshot) {
  return snapshot.items.reduce((items, { output, ...frame }) => {
    const next = fold(items, frame);
    return output ? changeLast(next, isLine, () => ({ text_before: output })) : next;
  }, []);
}

/** The output of a line: what a snapshot brought, and what came since. */
export const output = (line) => `${line.text_before ?? ''}${line.raw ? plain(line.raw) : ''}`.trimEnd();

/** The frames of an asciicast recording with their times in seconds, and its size. */
export function recording(text) {
  const [first, ...rest] = text.trimEnd().split('\n');
  const head = JSON.parse(first);
  const frames = [];
  let at = 0;
  let marker = null;
  let about = {};
  for (const line of rest) {
    const [interval, code, data] = JSON.parse(line);
    at += interval;
    if (code === 'm') marker = data;
    else if (code === 'o' && marker !== null) {
      frames.push({ at, k: 'l', text: marker, d: data, to: 'shell', ...about });
      [marker, about] = [null, {}];
    } else if (code === 'o') frames.push({ at, k: 'o', d: data });
    else if (code === 'r') frames.push({ at, k: 'r', cols: Number(data.split('x')[0]), rows: Number(data.split('x')[1]) });
    else if (code === 'x-reedclaw') {
      const frame = JSON.parse(data);
      // Before a marker: to whom the line went, and whether it is shown.
      if (frame.k === 'l') about = { to: frame.to ?? 'shell', hidden: frame.hidden === true };
      else frames.push({ at, ...frame });
    }
  }
  return { cols: head.term.cols, rows: head.term.rows, title: head.title, frames, length: at };
}
