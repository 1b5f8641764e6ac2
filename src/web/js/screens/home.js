// What waits for me, what runs, what it costs, what happened last.
import { api } from '../api.js';
import { useStore } from '../store.js';
import { Failed, None, Risk, Title, count, html, limitOf, span, time, useEvents, useLoaded, visible } from '../ui.js';

function Budget({ items }) {
  if (!items.length) return html`<p class="soft">No limits are set. <code>reedclaw gateway tenant limit</code> sets one.</p>`;
  return items.map(({ name, limit, spent, ...of }) => {
    const part = Math.min(100, limit ? (100 * spent) / limit : 100);
    return html`<p>${limitOf({ name, ...of })}: ${spent} of ${limit}${of.resets_at ? html`<span class="soft small"> until ${time(of.resets_at)}</span>` : null}
      <span class="meter" role="img" aria-label=${`${Math.round(part)} per cent used`}>
        <svg viewBox="0 0 100 4" preserveAspectRatio="none"><rect width=${part} height="4" /></svg></span></p>`;
  });
}

export function Home() {
  const known = useStore((state) => state.questions);
  const questions = known ?? [];
  const { value, error, reload } = useLoaded(async () => {
    const [runs, budget, status] = await Promise.all([
      api('GET', '/runs?limit=5'), api('GET', '/budget'), api('GET', '/status')]);
    return { runs: runs.items, budget: budget.items, status };
  }, questions.length);
  useEvents(/^run\./, reload);
  return html`<${Title}>Home<//>
    <${Failed} error=${error} retry=${reload} />
    <h2>Waiting for you</h2>
    ${questions.length ? html`<ul class="list">${questions.map((it) => html`<li data-entry tabindex="-1"><${Risk} of=${it.risk} />${' '}<a href="#/inbox">${visible(it.tool)}: ${visible(it.action).slice(0, 120)}</a></li>`)}</ul>`
      : html`<${None} isKnown=${known && value} error=${error}>Nothing waits for you.<//>`}
    ${value ? html`<h2>Last runs</h2>
      ${value.runs.length ? html`<ul class="list">${value.runs.map((run) => html`<li data-entry tabindex="-1">
          <span class="badge">${run.state}</span> <a href=${`#/runs/${run.run_id}`}>${visible(run.question).slice(0, 120) || run.run_id}</a>
          <span class="soft small"> ${time(run.started_at)}</span></li>`)}</ul>`
        : html`<${None} isKnown=${true} error=${error}>No runs yet. <a href="#/runs">Ask something.</a><//>`}
      <h2>Budget</h2><${Budget} items=${value.budget} />
      <h2>Gateway</h2>
      <p class="small">Version ${value.status.version}, up for ${span(value.status.uptime_s)}. ${value.status.receipts.valid
        ? `The chain of ${count(value.status.receipts.last_seq, 'receipt')} holds.` : html`<span class="bad">The chain of the receipts is broken.</span>`}</p>` : null}`;
}
