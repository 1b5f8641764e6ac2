// The tenant's log, newest first: filters, what caused what, and an event's JSON.
import { useEffect, useState } from '../../vendor/hooks.js';
import { api } from '../api.js';
import { onEvent, say } from '../store.js';
import { Failed, Title, html, time, visible } from '../ui.js';

const PAGE = 100;
const SHOWN_MAX = 2_000;

/** What an event was caused by and has caused, as far as those are in the list. */
function around(events, event) {
  return {
    cause: events.find((it) => event.causation_id && it.event_id === event.causation_id),
    effect: events.findLast((it) => it.causation_id === event.event_id),
  };
}

function Entry({ event, events, isOpen, toggle, go, follow }) {
  const { cause, effect } = around(events, event);
  const copy = () => navigator.clipboard.writeText(event.event_id).then(() => say('The id is copied.'), () => say('The browser refuses to copy.'));
  const press = ({ key, ctrlKey, metaKey, altKey }) => {
    if (ctrlKey || metaKey || altKey) return;
    if (key === 'c' && cause) go(cause);
    if (key === 'e' && effect) go(effect);
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

export function Timeline() {
  const [type, choose] = useState('');
  const [events, put] = useState([]);
  const [error, fail] = useState(null);
  const [open, show] = useState(null);
  const [run, follow] = useState('');
  const [isLoading, load] = useState(true);
  const filter = `${type ? `&type=${encodeURIComponent(type)}` : ''}${run ? `&run_id=${encodeURIComponent(run)}` : ''}`;
  const toggle = ({ position }) => show(open === position ? null : position);
  const go = ({ position }) => { show(position); document.getElementById(`event-${position}`)?.focus(); };
  const read = async () => {
    try {
      // The end of the log: read from a position near its head.
      const { positions } = await api('GET', '/status');
      const after = run ? 0 : Math.max(0, positions - (type ? 5_000 : PAGE));
      const { items } = await api('GET', `/events/list?limit=500&after=${after}${filter}`);
      put(items.reverse().slice(0, SHOWN_MAX));
      fail(null);
    } catch (wrong) { fail(wrong); }
    load(false);
  };
  useEffect(() => { read(); }, [filter]);
  useEffect(() => onEvent((event) => {
    if (event.type === 'resync') return read();
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
    <${Failed} error=${error} retry=${read} />
    ${isLoading ? html`<p role="status">Loading…</p>` : null}
    ${!isLoading && !events.length ? html`<p class="soft">${filter ? 'No events pass the filter.' : 'The log is empty.'}</p>` : null}
    ${run ? html`<p class="row"><span>Only the run <code>${run}</code></span><button onClick=${() => follow('')}>All events</button></p>` : null}
    <ol class="list" reversed>${events.slice(0, 300).map((event) => html`<${Entry} key=${event.position} event=${event} events=${events}
      isOpen=${open === event.position} toggle=${toggle} go=${go} follow=${follow} />`)}</ol>`;
}
