// Members and tokens of the tenant. A token is made at a terminal, so a stolen page makes none.
import { useState } from '../../vendor/hooks.js';
import { api, download } from '../api.js';
import { get, useStore } from '../store.js';
import { Failed, None, Title, Twice, count, html, span, time, useLoaded, useOnline, visible } from '../ui.js';

export function Admin() {
  const online = useOnline();
  const role = useStore((state) => state.role);
  const [failed, fail] = useState(null);
  const { value, error, reload } = useLoaded(async () => {
    if (role !== 'admin') return null;
    const [members, tokens, flags, routes, nodes] = await Promise.all(['/admin/members', '/admin/tokens', '/admin/flags', '/routing/routes', '/admin/nodes']
      .map((path) => api('GET', path).then(({ items }) => items)));
    return { members, tokens, flags, routes, nodes };
  }, role);
  const act = (promise) => promise.then(() => { fail(null); return reload(); }, fail);
  const [log, tell] = useState(null);
  const check = () => api('GET', '/admin/log').then((it) => { fail(null); tell(it); }, fail);
  const [whom, name] = useState('');
  const [doomed, doom] = useState(null);
  const [erased, report] = useState(null);
  const erase = () => {
    doom(null);
    api('POST', '/admin/erasures', { user: doomed, reason: 'by the console' }).then(({ erased: number }) => {
      report(number ? `${count(number, 'text')} of ${visible(doomed)} erased.` : `Nothing is erased: the log has no texts of ${visible(doomed)}.`);
      return check();
    }).catch(fail);
  };
  if (role !== 'admin') return html`<${Title}>Admin<//><p class="notice">This page is for the role admin; yours is ${role}.</p>`;
  return html`<${Title}>Admin<//>
    <${Failed} error=${error ?? failed} retry=${error ? reload : null} />
    ${value ? html`<h2>Members</h2>
      <div class="wide" tabindex="0" role="region" aria-label="Members"><table><thead><tr><th>User</th><th>Role</th><th>Change</th></tr></thead><tbody>
        ${value.members.map((it) => html`<tr key=${it.user}><td>${visible(it.user)}</td><td>${it.role}</td><td>
          <${Twice} word="Remove" of=${it.user} disabled=${!online}
            act=${() => act(api('DELETE', `/admin/members?user=${encodeURIComponent(it.user)}`))} /></td></tr>`)}</tbody></table></div>
      <h2>Tokens</h2>
      <p class="small">At a terminal: <code>reedclaw gateway token create --user NAME --role ROLE</code></p>
      <div class="wide" tabindex="0" role="region" aria-label="Tokens"><table><thead><tr><th>User</th><th>Kind</th><th>Role</th><th>State</th><th>Ends</th><th>Change</th></tr></thead><tbody>
        ${value.tokens.map((it) => html`<tr key=${it.id}><td>${visible(it.user)}</td><td>${it.kind}</td><td>${it.role}</td><td>${it.state}</td><td>${it.expires_at ? time(it.expires_at) : 'no end'}</td>
          <td>${it.state === 'active' ? html`<${Twice} word="Revoke" of=${`the token of ${it.user}`} disabled=${!online}
            act=${() => act(api('DELETE', `/admin/tokens?id=${encodeURIComponent(it.id)}`))} />` : null}</td></tr>`)}</tbody></table></div>
      <h2>Flags</h2>
      <ul class="list">${value.flags.map((it) => {
        const [isOn, next] = [it.on ?? it.usual, (it.on ?? it.usual) ? 'off' : 'on'];
        return html`<li class="row"><span>${it.flag}: ${isOn ? 'on' : 'off'}${it.on === null ? ', as usual' : ''}</span>
          <button disabled=${!online} aria-label=${`Switch ${next}: ${it.flag}`}
            onClick=${() => act(api('POST', '/admin/flags', { flag: it.flag, on: !isOn }))}>Switch ${next}</button>
          ${it.on === null ? null : html`<button disabled=${!online} aria-label=${`As usual: ${it.flag}`}
            onClick=${() => act(api('DELETE', `/admin/flags?flag=${it.flag}`))}>As usual</button>`}</li>`;
      })}</ul>
      <h2>Back-ends</h2>
      <div class="wide" tabindex="0" role="region" aria-label="Back-ends"><table><thead><tr><th>Service</th><th>Back-end</th><th>Place</th></tr></thead><tbody>
        ${value.routes.map((it) => html`<tr><td>${it.service}</td><td>${it.backend}</td><td>${visible(it.location ?? 'this machine')}</td></tr>`)}</tbody></table></div>
      <h2>Log</h2>
      <p class="row"><button disabled=${!online} onClick=${check}>Check the log</button>
        <button disabled=${!online} onClick=${() => download('/admin/archive', `${get().who.tenant}.ndjson`).then(() => fail(null), fail)}>Download everything</button></p>
      ${log ? html`<p id="log" role="status" class=${log.whole ? '' : 'bad'}>${log.whole ? `✓ ${log.events} events hold${log.erased ? `, ${log.erased} of them erased` : ''}.`
        : `⊘ Broken at position ${log.broken.position}: ${visible(log.broken.why)}`}</p>` : null}
      <form class="row" onSubmit=${(event) => { event.preventDefault(); report(null); doom(whom); }}><label for="erase">Erase what a person has written</label>
        <input id="erase" required value=${whom} onInput=${(event) => { name(event.target.value); doom(null); }} pattern="[A-Za-z0-9._:\\-]+" disabled=${!online} />
        <button class="danger" disabled=${!online}>Erase…</button></form>
      ${doomed ? html`<p class="row"><span>Erase all texts of ${visible(doomed)} for good?</span>
        <button class="danger" disabled=${!online} onClick=${erase}>Erase them</button><button onClick=${() => doom(null)}>Keep them</button></p>` : null}
      ${erased ? html`<p role="status" id="erased">${erased}</p>` : null}
      <h2>Nodes</h2>
      <ul class="list">${value.nodes.map((it) => html`<li><code>${it.node_id}</code>, up for ${span(it.uptime_s)}${it.streams === null ? '' : `, ${count(it.streams, 'stream')}`}</li>`)}</ul>`
      : html`<${None} error=${error} />`}`;
}
