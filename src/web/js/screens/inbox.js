// The questions that I may answer: one by one, after all of a question was seen.
import { useEffect, useLayoutEffect, useRef, useState } from '../../vendor/hooks.js';
import { api } from '../api.js';
import { say, set, useStore } from '../store.js';
import { refresh } from '../refresh.js';
import { Failed, None, Risk, Title, difference, html, time, useLoaded, useOnline, visible } from '../ui.js';

function Change({ change }) {
  const lines = difference(change.old, change.new);
  return html`<pre tabindex="0" role="region" aria-label=${`Change of ${visible(change.path)}`}><span class="line">${visible(change.path)}</span>${lines.map(([sign, line]) =>
    html`<span class=${`line ${{ '+': 'add', '-': 'cut' }[sign] ?? ''}`}>${`${sign} ${visible(line)}\n`}</span>`)}<${End} /></pre>`;
}

/** The end of a part of a question. */
const End = () => html`<span data-end></span>`;

/** Whether the end of each part of a card was in sight: a part that scrolls or is cut hides its end. */
function useSeen(card) {
  const [isSeen, see] = useState(false);
  useEffect(() => {
    const unseen = new Set(card.current.querySelectorAll('[data-end]'));
    const watch = new IntersectionObserver((looks) => {
      for (const { isIntersecting, target } of looks) {
        if (isIntersecting && unseen.delete(target)) watch.unobserve(target);
      }
      if (!unseen.size) see(true);
    });
    unseen.forEach((it) => watch.observe(it));
    return () => watch.disconnect();
  }, []);
  return isSeen;
}

export function Question({ question, done }) {
  const online = useOnline();
  const card = useRef(null);
  const isSeen = useSeen(card);
  const isSending = useRef(false);
  const [error, fail] = useState(null);
  const [note, write] = useState('');
  const can = question.may_answer && isSeen && online;
  // The card that had the focus goes. The next one doesn't get it: a key pressed twice must not answer that, too.
  const leave = () => { if (card.current?.contains(document.activeElement)) document.querySelector('main h1')?.focus(); };
  // The list may know of an answer, mine or another person's, before the one who gave it does.
  useLayoutEffect(() => leave, []);
  const answer = async (word) => {
    if (!can || isSending.current) return;
    isSending.current = true;
    const body = { digest: question.digest, answer: word, seen_to_end: true, ...(note ? { note } : {}) };
    try {
      await api('POST', `/questions/${question.question_id}/answer`, body);
      say(word === 'once' ? 'Answered: yes, once' : 'Answered: no');
      leave();
    } catch (wrong) {
      fail(wrong);
      // The card goes with its question, so what became of my answer is said above the screen.
      if (wrong.code === 'already_answered' || wrong.code === 'question_expired') {
        const why = wrong.code === 'already_answered' ? `${wrong.context.by} has answered it already` : 'its time is over';
        set({ notice: `Your answer to ${question.tool} doesn't count: ${why}.` });
        leave();
      }
    }
    isSending.current = false;
    done();
  };
  const isShared = question.stream?.startsWith('share/');
  const [isLonger, lengthen] = useState(false);
  const extend = () => api('POST', `/questions/${question.question_id}/extend`, {})
    .then(() => { lengthen(true); say('There is more time.'); done(); }, fail);
  const press = (event) => {
    // Only the card itself: a letter in its field is text. And only the letter alone, pressed for this card.
    if (event.target !== card.current || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.key === 'o') answer('once');
    if (event.key === 'n') answer('no');
  };
  const why = !question.may_answer ? question.why_not : !online ? 'the gateway does not answer' : !isSeen ? 'its end was not seen yet' : null;
  // A reason that only repeats an effect says nothing new.
  const reasons = question.reasons.filter((it) => !question.effects.includes(it.text));
  return html`<article class="card mine" tabindex="0" data-entry ref=${card} onKeyDown=${press} aria-label=${`Question: ${visible(question.tool)}`}>
    <div class="row"><strong>${visible(question.tool)}</strong><${Risk} of=${question.risk} />
      <span class="soft small">asked by ${visible(question.asked_by)}, until ${new Date(question.deadline).toLocaleTimeString()}</span></div>
    <pre tabindex="0" role="region" aria-label="Action">${visible(question.action)}<${End} /></pre>
    <p class="small">In <code>${visible(question.cwd)}</code>${question.program ? html`, program <code>${visible(question.program)}</code>` : null}</p>
    ${question.effects.length ? html`<p>What it does: ${question.effects.map(visible).join('; ')}</p>` : null}
    ${question.needs.length ? html`<p>It also needs: ${question.needs.map(visible).join('; ')}</p>` : null}
    ${reasons.length ? html`<p class="small">Why it is asked: ${reasons.map((it) => visible(it.text)).join('; ')}</p>` : null}
    ${question.changes.length ? question.changes.map((it) => html`<${Change} change=${it} />`)
      : question.preview ? html`<pre tabindex="0" role="region" aria-label="Preview">${visible(question.preview)}<${End} /></pre>` : null}
    <div data-end></div>
    <label for=${`note-${question.question_id}`}>Note (optional)</label>
    <input id=${`note-${question.question_id}`} maxlength="500" value=${note} onInput=${(event) => write(event.target.value)} />
    <p class="row"><button class="main" disabled=${!can} onClick=${() => answer('once')}>Yes, once</button>
      <button class="danger" disabled=${!can} onClick=${() => answer('no')}>No</button>
      ${question.may_answer && !isShared && !isLonger ? html`<button disabled=${!online} onClick=${extend}>More time</button>` : null}
      ${why ? html`<span class="soft small">You can't answer: ${why}.</span>` : null}</p>
    <${Failed} error=${error} />
  </article>`;
}

export function Inbox() {
  const known = useStore((state) => state.questions);
  const open = known ?? [];
  const role = useStore((state) => state.role);
  const done = () => refresh().catch(() => null);
  const mayRead = ['approver', 'operator', 'admin'].includes(role);
  const { value, error, reload } = useLoaded(
    () => (mayRead ? api('GET', '/questions?state=all&limit=20') : Promise.resolve({ items: [] })),
    open.map((it) => it.question_id).join());
  const past = (value?.items ?? []).filter((it) => it.state !== 'open').reverse();
  return html`<${Title}>Inbox<//>
    <${Failed} error=${error} retry=${reload} />
    ${mayRead ? null : html`<p class="notice">Questions are shown to those with the role approver; yours is ${role}.</p>`}
    ${open.length ? open.map((it) => html`<${Question} key=${it.question_id} question=${it} done=${done} />`)
      : mayRead ? html`<${None} isKnown=${known && value} error=${error}>No question is open.<//>` : null}
    ${past.length ? html`<h2>Earlier</h2><ul class="list">${past.map((it) => html`<li data-entry tabindex="-1">
      <span class=${`badge ${it.answer === 'once' ? 'good' : ''}`}>${it.state === 'answered' ? `${it.answer === 'once' ? '✓ yes' : '✕ no'}, ${it.by}` : it.state}</span>
      ${' '}${visible(it.tool)}: ${visible(it.action).slice(0, 160)} <span class="soft small">${time(it.asked_at)}</span></li>`)}</ul>` : null}`;
}
