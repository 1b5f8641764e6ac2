// What can be used here: cards of six kinds, with source and hash. A list that the page has already isn't sent again.
import { useState } from '../../vendor/hooks.js';
import { api } from '../api.js';
import { Failed, None, Title, html, useLoaded, visible } from '../ui.js';

const KINDS = ['nodes', 'flows', 'personas', 'tasks', 'providers', 'models'];
const kept = {};

/** A list of the registry, from the page's own copy if its hash still counts. */
async function load(kind) {
  const headers = kept[kind] ? { 'If-None-Match': `"${kept[kind].version_hash}"` } : {};
  const list = await api('GET', `/registry/${kind}`, undefined, { headers }).catch((error) => {
    if (error.status === 304) return kept[kind];
    throw error;
  });
  const changed = kept[kind] && kept[kind].version_hash !== list.version_hash;
  kept[kind] = list;
  return { ...list, kind, changed };
}

const dangerous = (card) => card.dangerous_class
  ? html` <span class="badge bad">⊘ ${card.dangerous_class}: a high risk needs a licence</span>` : null;

export function Registry() {
  const [kind, choose] = useState('nodes');
  const { value, error, reload } = useLoaded(() => load(kind), kind);
  return html`<${Title}>Registry<//>
    <label for="kind">Kind</label>
    <select id="kind" value=${kind} onChange=${(event) => choose(event.target.value)}>${KINDS.map((it) => html`<option>${it}</option>`)}</select>
    <${Failed} error=${error} retry=${reload} />
    ${value?.kind === kind ? html`
      <p class="small soft">version <code>${value.version_hash.slice(0, 12)}</code>${value.changed ? ', which has changed since the last look' : ''}</p>
      ${value.items.length ? null : html`<${None} isKnown=${true} error=${error}>There are none.<//>`}
      <ul class="list" id="cards">${value.items.map((it) => html`<li data-entry tabindex="-1" key=${it.id}>
        <strong>${visible(it.id)}</strong> <span class="badge">${it.source}</span>${it.card.risk ? html` <span class="badge">risk ${visible(it.card.risk)}</span>` : null}${dangerous(it.card)}
        <div class="small">${visible(it.card.description ?? '')}</div>
        <details><summary>Card, <code>${it.version_hash.slice(0, 12)}</code></summary><pre tabindex="0">${visible(JSON.stringify(it.card, null, 2))}</pre></details></li>`)}</ul>`
      : error ? null : html`<p role="status">Loading…</p>`}`;
}
