// The tenant's log, newest first: filters, what caused what, and an event's JSON.
import { useEffect, useRef, useState } from '../../vendor/hooks.js';
import { newest } from '../events.js';
import { onEvent, say, useStore } from '../store.js';
import { Failed, None, Title, count, html, time, visible } from '../ui.js';

/** Events in the list, how many of them are drawn at first and more each time, and how many positions are read for older ones. */
const SHOWN_MAX = 10_000;
const DRAWN = 300;
const OLDER = 500;
/** Positions of a block of the list. The browser lays out only blocks in sight, and a new event changes the first one alone. */
const BLOCK = 100;
/** Distance from the end of the list at which older events are shown by themselves. */
const NEAR = '600px';

/** What an event was caused by and has caused, as far as those are in the list. */
function around(events, event) {
  return {
    cause: events.find((it) => event.causation_id && it.event_id === event.causation_id),
    effect: events.findLast((it) => it.causation_id === event.event_id),
  };
}

function Entry({ event, list, isOpen, toggle, go, follow }) {
  // Only those that are looked at are searched for.
  const { cause, effect } = isOpen ? around(list.current, event) : {};
  const copy = () => navigator.clipboard.writeText(event.event_id).then(() => say('The id is copied.'), () => say('The browser refuses to copy.'));
  const press = ({ key, ctrlKey, metaKey, altKey }) => {
    if (ctrlKey || metaKey || altKey) return;
    const to = { c: 'cause', e: 'effect' }[key];
    const found = to && around(list.current, event)[to];
    if (found) go(found);
    if (key === 'y') copy();
  };
  return html`<li>
    <button class="plain" data-entry id=${`event-${event.position}`} aria-expanded=${isOpen} onKeyDown=${press} onClick=${() => toggle(event)}>
      ${event.position} · ${visible(event.event_type)} · ${visible(event.stream)}</button>
    ${' '}<span class="soft small">${visible(event.body?.action_name ?? event.body?.outcome ?? '')} ${visible(event.actor)} ${time(event.recorded_at)}</span>
    ${isOpen ? html`<p class="row"><button disabled=${!cause} onClick=${() => go(cause)}>Cause (c)</button>
        <button disabled=${!effect} onClick=${() => go(effect)}>Effect (e)</button><button onClick=${copy}>Copy the id (y)</button>
        ${event.run_id ? html`<button onClick=${() => follow(event.run_id)}>Only this run</button>` : null}</p>
      <pre tabindex="0">${visible(JSON.stringify(event, null, 2))}</pre>` : null}</li>`;
}

/** The list in blocks. One whose events are the same is what it was, unless one of them is open. */
function Blocks({ events, list, open, toggle, go, follow }) {
  const known = useRef(new Map());
  const groups = new Map();
  for (const event of events) {
    const at = Math.floor(event.position / BLOCK);
    if (!groups.has(at)) groups.set(at, []);
    groups.get(at).push(event);
  }
  const drawn = new Map();
  for (const [at, items] of groups) {
    const isOpen = items.some((it) => it.position === open);
    const old = known.current.get(at);
    const isSame = old && !isOpen && !old.isOpen && old.items.length === items.length && old.items.every((it, place) => it === items[place]);
    drawn.set(at, isSame ? old : { items, isOpen, block: html`<ol class="list block" reversed key=${at}>${items.map((event) => html`<${Entry}
      key=${event.position} event=${event} list=${list} isOpen=${open === event.position} toggle=${toggle} go=${go} follow=${follow} />`)}</ol>` });
  }
  known.current = drawn;
  return html`<div>${[...drawn.values()].map((it) => it.block)}</div>`;
}

export function Timeline() {
  const [type, choose] = useState('');
  const [events, put] = useState([]);
  const [error, fail] = useState(null);
  const [open, show] = useState(null);
  const [run, follow] = useState('');
  // The position down to which all events are in the list; null as long as nothing is known.
  const [from, reach] = useState(null);
  const [drawn, draw] = useState(DRAWN);
  const [isLoading, load] = useState(true);
  const connection = useStore((state) => state.connection);
  const filter = `${type ? `&type=${encodeURIComponent(type)}` : ''}${run ? `&run_id=${encodeURIComponent(run)}` : ''}`;
  // Blocks that stay as they are call these as they were.
  const list = useRef(events);
  list.current = events;
  const toggle = ({ position }) => show((old) => (old === position ? null : position));
  const go = ({ position }) => { show(position); document.getElementById(`event-${position}`)?.focus(); };
  // The number of the newest reading. What an earlier one brings is dropped: it may belong to another filter or be out of date.
  const newestReading = useRef(0);
  // The events before a position go below those that are there; without one the list begins anew.
  const read = async (until = null) => {
    newestReading.current += 1;
    const reading = newestReading.current;
    load(true);
    try {
      const found = await newest(filter, until, until === null ? undefined : OLDER);
      if (newestReading.current !== reading) return;
      put((old) => {
        // Some may have come by the stream meanwhile.
        const rest = old.filter((it) => it.position > found.head);
        return [...rest, ...found.events].slice(0, SHOWN_MAX);
      });
      reach(found.from);
      if (until === null) draw(DRAWN);
      fail(null);
    } catch (wrong) {
      if (newestReading.current !== reading) return;
      fail(wrong);
    }
    load(false);
  };
  const older = () => {
    draw((old) => old + DRAWN);
    if (drawn + DRAWN > events.length && from > 0 && events.length < SHOWN_MAX) read(from);
  };
  const end = useRef(null);
  useEffect(() => {
    if (!end.current || isLoading || error) return undefined;
    // The last one is how it is now.
    const watch = new IntersectionObserver((seen) => { if (seen.at(-1).isIntersecting && scrollY > 0) older(); }, { rootMargin: NEAR });
    watch.observe(end.current);
    return () => watch.disconnect();
  }, [events.length, drawn, from, isLoading, error]);
  useEffect(() => {
    put([]);
    reach(null);
    read();
  }, [filter]);
  useEffect(() => { if (connection === 'live' && error) read(from && events.length ? from : null); }, [connection]);
  useEffect(() => onEvent((event) => {
    if (event.type === 'resync') {
      put([]);
      return read();
    }
    if (type && event.type !== type || run && event.ids?.run_id !== run) return undefined;
    const item = { ...event, ...event.ids, event_type: event.type, recorded_at: event.at };
    return put((old) => (old[0] && old[0].position >= item.position ? old : [item, ...old].slice(0, SHOWN_MAX)));
  }), [filter]);
  const types = ['safety', 'audit', 'action.requested', 'action.admitted', 'action.completed', 'action.failed', 'action.unknown',
    'question.asked', 'question.answered', 'run.started', 'run.ended', 'cost', 'canvas_commit', 'kill_switch'];
  return html`<${Title}>Timeline<//>
    <label for="type">Type</label>
    <select id="type" value=${type} onChange=${(event) => choose(event.target.value)}>
      <option value="">all</option>${types.map((it) => html`<option>${it}</option>`)}</select>
    <${Failed} error=${error} retry=${() => read()} />
    ${events.length ? null : html`<${None} isKnown=${from !== null && !isLoading} error=${error}>${
      from ? `None of the last events pass the filter; there are ${count(from, 'older event')}.` : filter ? 'No events pass the filter.' : 'The log is empty.'}<//>`}
    ${run ? html`<p class="row"><span>Only the run <code>${run}</code></span><button onClick=${() => follow('')}>All events</button></p>` : null}
    <${Blocks} events=${events.slice(0, drawn)} list=${list} open=${open} toggle=${toggle} go=${go} follow=${follow} />
    ${from > 0 && events.length < SHOWN_MAX || events.length > drawn ? html`<p class="row" ref=${end}><button disabled=${isLoading} onClick=${older}>Older</button>
        ${isLoading ? html`<span role="status">Loading…</span>` : null}</p>`
      : events.length >= SHOWN_MAX ? html`<p class="soft">Older events aren't shown. A type or a run shows fewer.</p>` : null}`;
}
