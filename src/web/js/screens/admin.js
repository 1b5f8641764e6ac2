// Members and tokens of the tenant. A token is made at a terminal, so a stolen page makes none.
import { useState } from '../../vendor/hooks.js';
import { api } from '../api.js';
import { useStore } from '../store.js';
import { Failed, Title, html, time, useLoaded, useOnline, visible } from '../ui.js';

export function Admin() {
  const online = useOnline();
  const role = useStore((state) => state.role);
  const [failed, fail] = useState(null);
  const { value, error, reload } = useLoaded(async () => {
    if (role !== 'admin') return null;
    const [members, tokens] = await Promise.all([api('GET', '/admin/members'), api('GET', '/admin/tokens')]);
    return { members: members.items, tokens: tokens.items };
  }, role);
  const act = (promise) => promise.then(() => { fail(null); return reload(); }, fail);
  if (role !== 'admin') return html`<${Title}>Admin<//><p class="notice">This page is for the role admin; yours is ${role}.</p>`;
  return html`<${Title}>Admin<//>
    <${Failed} error=${error ?? failed} retry=${error ? reload : null} />
    ${value ? html`<h2>Members</h2>
      <div class="wide" tabindex="0" role="region" aria-label="Members"><table><thead><tr><th>User</th><th>Role</th><th>Change</th></tr></thead><tbody>
        ${value.members.map((it) => html`<tr><td>${visible(it.user)}</td><td>${it.role}</td><td>
          <button class="danger" disabled=${!online} aria-label=${`Remove ${it.user}`}
            onClick=${() => act(api('DELETE', `/admin/members?user=${encodeURIComponent(it.user)}`))}>Remove</button></td></tr>`)}</tbody></table></div>
      <h2>Tokens</h2>
      <p class="small">At a terminal: <code>reedclaw gateway token create --user NAME --role ROLE</code></p>
      <div class="wide" tabindex="0" role="region" aria-label="Tokens"><table><thead><tr><th>User</th><th>Kind</th><th>Role</th><th>State</th><th>Ends</th><th>Change</th></tr></thead><tbody>
        ${value.tokens.map((it) => html`<tr><td>${visible(it.user)}</td><td>${it.kind}</td><td>${it.role}</td><td>${it.state}</td><td>${it.expires_at ? time(it.expires_at) : 'no end'}</td>
          <td>${it.state === 'active' ? html`<button class="danger" disabled=${!online} aria-label=${`Revoke the token of ${it.user}`}
            onClick=${() => act(api('DELETE', `/admin/tokens?id=${encodeURIComponent(it.id)}`))}>Revoke</button>` : null}</td></tr>`)}</tbody></table></div>`
      : html`<p role="status">Loading…</p>`}`;
}
