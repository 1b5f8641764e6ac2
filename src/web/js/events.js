// The log's newest events. Its lists go up, so it is read in windows of positions from its head down.
import { api } from './api.js';

const PAGE = 500;
/** Positions that are looked through at once, and how often for one answer. */
const WINDOW = 5_000;
const WINDOWS_MAX = 10;
/** Events that make an answer, unless more are wanted. */
const LEAST = 100;

/** The events of a filter after one position and up to another, oldest first. */
async function between(after, until, filter) {
  const found = [];
  let place = `after=${after}`;
  while (place) {
    const { items, next } = await api('GET', `/events/list?limit=${PAGE}&before=${until + 1}&${place}${filter}`);
    found.push(...items);
    place = next ? `cursor=${encodeURIComponent(next)}` : null;
  }
  return found;
}

/** The newest events that pass a filter, up to a position (the log's head by default), newest first; that position, and the one
 * down to which all of them are there. Without a filter as many positions are read as events are wanted at `least`. */
export async function newest(filter, until = null, least = LEAST) {
  const head = until ?? (await api('GET', '/status')).positions;
  let from = head;
  const events = [];
  for (let count = 0; from > 0 && events.length < least && count < WINDOWS_MAX; count += 1) {
    const after = Math.max(0, from - (filter ? WINDOW : least));
    events.push(...(await between(after, from, filter)).reverse());
    from = after;
  }
  return { events, head, from };
}
