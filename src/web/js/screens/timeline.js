// The tenant's log, newest first: filters, what caused what, and an event's JSON.
import { useEffect, useState } from '../../vendor/hooks.js';
import { api } from '../api.js';
import { onEvent } from '../store.js';
import { Failed, Title, html, time, visible } from '../ui.js';

const PAGE = 100;
const SHOWN_MAX = 2_000;

export function Timeline() {
  const [type, choose] = useState('');
  const [events, put] = useState([]);
  const [error, fail] = useState(null);
  const [open, show] = useState(null);
  const [isLoading, load] = useState(true);
  const filter = type ? `&type=${encodeURIComponent(type)}` : '';
  const read = async () => {
    try {
      // The end of the log: read from a position near its head.
      const { positions } = await api('GET', '/status');
      const after = Math.max(0, positions - (type ? 5_000 : PAGE));
      const { items } = await api('GET', `/events/list?limit=500&after=${after}${filter}`);
      put(items.reverse().slice(0, SHOWN_MAX));
      fail(null);
    } catch (wrong) { fail(wrong); }
    load(false);
  };
  useEffect(() => { read(); }, [type]);
  useEffect(() => onEvent((event) => {
    if (event.type === 'resync') return read();
    if (type && event.type !== type) return undefined;
    const item = { ...event, event_type: event.type, recorded_at: event.at, actor: event.actor ?? '' };
    return put((old) => (old[0] && old[0].position >= item.position ? old : [item, ...old].slice(0, SHOWN_MAX)));
  }), [type]);
  const types = ['safety', 'audit', 'action.requested', 'action.admitted', 'action.completed', 'action.failed', 'action.unknown',
    'question.asked', 'question.answered', 'run.started', 'run.ended', 'cost', 'canvas_commit', 'kill_switch'];
  return html`<${Title}>Timeline<//>
    <label for="type">Type</label>
    <select id="type" value=${type} onChange=${(event) => choose(event.target.value)}>
      <option value="">all</option>${types.map((it) => html`<option>${it}</option>`)}</select>
    <${Failed} error=${error} retry=${read} />
    ${isLoading ? html`<p role="status">Loading…</p>` : null}
    ${!isLoading && !events.length ? html`<p class="soft">${type ? `No events of the type ${type}.` : 'The log is empty.'}</p>` : null}
    <ol class="list" reversed>${events.slice(0, 300).map((event) => html`<li key=${event.position}>
      <button data-entry aria-expanded=${open === event.position} onClick=${() => show(open === event.position ? null : event.position)}>
        ${event.position} · ${visible(event.event_type)} · ${visible(event.stream)}</button>
      ${' '}<span class="soft small">${visible(event.body?.action_name ?? event.body?.outcome ?? '')} ${time(event.recorded_at)}</span>
      ${open === event.position ? html`<pre tabindex="0">${visible(JSON.stringify(event, null, 2))}</pre>` : null}</li>`)}</ol>`;
}
