// Values that agents remember, by scope and prefix; and the search of earlier conversations.
import { useState } from '../../vendor/hooks.js';
import { api } from '../api.js';
import { Failed, None, Title, Twice, html, time, useLoaded, useOnline, visible } from '../ui.js';

export function Memory() {
  const online = useOnline();
  const [scope, choose] = useState('project');
  const [words, write] = useState('');
  const [found, show] = useState(null);
  const [failed, fail] = useState(null);
  const { value, error, reload } = useLoaded(() => api('GET', `/memory?scope=${scope}&prefix=`), scope);
  const search = async (event) => {
    event.preventDefault();
    await api('GET', `/memory/search?q=${encodeURIComponent(words)}&limit=20`).then((it) => { show(it.items); fail(null); }, fail);
  };
  const forget = (key) => api('DELETE', `/memory?scope=${scope}&key=${encodeURIComponent(key)}`).then(reload, fail);
  return html`<${Title}>Memory<//>
    <form onSubmit=${search} role="search"><label for="words">Search earlier conversations</label>
      <div class="row"><input id="words" required value=${words} onInput=${(event) => write(event.target.value)} /><button>Search</button></div></form>
    <${Failed} error=${failed} />
    ${found ? html`<ul class="list" aria-label="Found">${found.map((hit) => html`<li data-entry tabindex="-1"><span class="badge">${hit.role}</span>
      ${' '}${visible(hit.snippet)} <span class="soft small">conversation ${hit.conversation_id}, ${time(hit.at)}</span></li>`)}</ul>
      ${found.length ? null : html`<p class="soft">Nothing was found.</p>`}` : null}
    <h2>Entries</h2>
    <label for="scope">Scope</label>
    <select id="scope" value=${scope} onChange=${(event) => choose(event.target.value)}><option>project</option><option>tenant</option></select>
    <${Failed} error=${error} retry=${reload} />
    ${value?.items.length ? null : html`<${None} isKnown=${value} error=${error}>Nothing is remembered in this scope.<//>`}
    <ul class="list">${value?.items.map((entry) => html`<li data-entry tabindex="-1" key=${entry.key}><strong>${visible(entry.key)}</strong>
      ${' '}<span class="soft small">version ${entry.version}, by ${visible(entry.by)}${entry.expires_at ? `, until ${time(entry.expires_at)}` : ''}</span>
      <pre tabindex="0">${visible(JSON.stringify(entry.value, null, 2))}</pre>
      <${Twice} word="Forget" of=${entry.key} disabled=${!online} act=${() => forget(entry.key)} /></li>`)}</ul>`;
}
