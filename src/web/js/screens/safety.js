// The kill switch (stopping only), strategy locks, licences, limits, and the last decisions of the gates.
import { useState } from '../../vendor/hooks.js';
import { api } from '../api.js';
import { newest } from '../events.js';
import { get, say, useStore } from '../store.js';
import { refresh } from '../refresh.js';
import { LicenceForm, LockForm } from './grants.js';
import { Failed, None, Title, Twice, html, limitOf, span, time, useLoaded, useOnline, visible } from '../ui.js';

/** Decisions that are shown; the timeline has the others. */
const DECISIONS_MAX = 30;
const MAY = ['viewer', 'member', 'approver', 'operator', 'admin'];
const may = (role) => MAY.indexOf(get().role) >= MAY.indexOf(role);

export function Safety() {
  const online = useOnline();
  const stopped = useStore((state) => state.stopped);
  const [failed, fail] = useState(null);
  const [isSure, ask] = useState(false);
  const { value, error, reload } = useLoaded(async () => {
    const [locks, licences, budget, kpis, decisions] = await Promise.all([
      api('GET', '/strategy-locks'), api('GET', '/firearms/licences'), api('GET', '/budget'), api('GET', '/analytics/kpis'),
      newest('&type=safety')]);
    return { locks: locks.items, licences: licences.items, budget: budget.items, kpis: kpis.items, decisions: decisions.events.slice(0, DECISIONS_MAX), isAll: decisions.from === 0 };
  }, stopped);
  const act = (promise, told) => promise.then(() => { say(told); fail(null); return reload().then(() => true); }, fail);
  const stop = () => act(api('POST', '/estop', { scope: 'tenant', reason: 'by the console' }).then(refresh), 'Everything is stopped').then(() => ask(false));
  const decide = (lock, word) => act(api('POST', `/strategy-locks/${lock.lock_id}/${word}`, {}), word);
  const revoke = (id) => act(api('POST', `/firearms/${id}/revoke`, { reason: 'by the console' }), 'Revoked');
  return html`<${Title}>Safety<//>
    <${Failed} error=${error ?? failed} retry=${error ? reload : null} />
    <h2>Kill switch</h2>
    ${stopped ? html`<p class="bad" id="is-stopped">⊘ Tools are stopped. Only a person at a terminal lifts this: <code>reedclaw gateway estop --clear</code></p>`
      : isSure ? html`<p class="row"><span>Stop every tool of this tenant? No page can lift it.</span>
          <button class="danger" disabled=${!online} onClick=${stop}>Stop everything</button><button onClick=${() => ask(false)}>Keep working</button></p>`
        : html`<button class="danger" disabled=${!online || !may('member')} onClick=${() => ask(true)}>Stop all tools…</button>`}
    ${value ? html`
      <h2>Strategy locks</h2>
      ${value.locks.length ? html`<ul class="list">${value.locks.map((lock) => html`<li data-entry tabindex="-1">
          <span class="badge">${lock.state}</span> ${visible(lock.actions.join(', '))} in ${visible(lock.scope)}, until ${time(lock.valid_until)}
          <div class="small soft">${visible(lock.reason)}, by ${visible(lock.author)}${lock.three_wise ? `, ${lock.approvals?.length ?? lock.approvals ?? 0} of 3 approvals` : ''}</div>
          ${lock.state === 'pending' ? html`<p class="row"><button disabled=${!online || !may('approver')} onClick=${() => decide(lock, 'approve')}>Approve</button>
            <button class="danger" disabled=${!online || !may('approver')} onClick=${() => decide(lock, 'reject')}>Reject</button></p>` : null}</li>`)}</ul>`
        : html`<${None} isKnown=${true} error=${error}>No strategy locks.<//>`}
      ${may('member') ? html`<${LockForm} made=${act} />` : null}
      <h2>Licences</h2>
      ${value.licences.length ? html`<ul class="list">${value.licences.map((it) => html`<li data-entry tabindex="-1">
          <span class=${`badge ${it.active ? 'good' : ''}`}>${it.active ? 'counts' : 'over'}</span> ${visible(JSON.stringify(it.subject))}:
          ${' '}${visible([...(it.actions ?? []), it.class].filter(Boolean).join(', '))}, until ${time(it.valid_until)}
          ${it.active ? html` <${Twice} word="Revoke" of="this licence" disabled=${!online || !may('operator')} act=${() => revoke(it.licence_id)} />` : null}</li>`)}</ul>`
        : html`<${None} isKnown=${true} error=${error}>No licences.<//>`}
      ${may('operator') ? html`<${LicenceForm} made=${act} />` : null}
      <h2>Limits</h2>
      ${value.budget.length ? html`<ul class="list">${value.budget.map((it) => html`<li>${limitOf(it)}: ${it.spent} of ${it.limit}</li>`)}</ul>`
        : html`<${None} isKnown=${true} error=${error}>No limits are set.<//>`}
      <h2>Figures</h2>
      <div class="wide" tabindex="0" role="region" aria-label="Figures"><table><thead><tr><th>Figure</th><th>Now</th><th>Values</th><th>Rule</th></tr></thead><tbody>
        ${value.kpis.map((it) => html`<tr><td>${visible(it.kpi)}${it.action ? ` of ${visible(it.action)}` : ''}</td><td>${it.value ?? 'nothing yet'}</td><td>${it.samples} in ${span(it.window_s)}</td>
          <td class=${it.broken ? 'bad' : ''}>${it.op ? `${it.broken ? '⊘ broken, must be' : '✓ kept,'} ${it.op} ${it.threshold}` : 'none'}</td></tr>`)}</tbody></table></div>
      <h2>Last decisions</h2>
      ${value.decisions.length ? html`<div class="wide" tabindex="0" role="region" aria-label="Last decisions"><table><thead><tr><th>Time</th><th>Action</th><th>Risk</th><th>Outcome</th><th>By</th></tr></thead>
        <tbody>${value.decisions.map((it) => html`<tr><td>${time(it.recorded_at)}</td><td>${visible(it.body.action_name)}</td><td>${it.body.risk}</td>
          <td class=${it.body.outcome === 'block' ? 'bad' : ''}>${it.body.outcome === 'block' ? `⊘ ${it.body.gate}` : '✓ pass'}</td><td>${visible(it.actor)}</td></tr>`)}</tbody></table></div>`
        : html`<${None} isKnown=${true} error=${error}>${value.isAll ? 'No decisions yet.' : 'No decisions among the last events.'}<//>`}` : html`<${None} error=${error} />`}`;
}
