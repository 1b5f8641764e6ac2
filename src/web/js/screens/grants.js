// Forms that ask for a strategy lock and issue a licence. The gateway decides about both; the page only fills them in.
import { useEffect, useRef, useState } from '../../vendor/hooks.js';
import { api } from '../api.js';
import { html, useOnline } from '../ui.js';

const CLASSES = ['exec', 'delete', 'network', 'money', 'canvas_purge'];
const ROLES = ['viewer', 'member', 'approver', 'operator', 'admin'];

/** The words of a list with commas. */
const words = (text) => text.split(',').map((word) => word.trim()).filter(Boolean);
/** The end of a day here, as a moment. */
const endOf = (day) => new Date(`${day}T23:59:59`).toISOString();
/** A day after so many days, as an input of a day has it. */
const dayAfter = (days) => new Date(Date.now() + days * 86_400_000).toLocaleDateString('sv');

/** A form that opens by a button and closes when what it makes was made. */
function Form({ word, send, children }) {
  const online = useOnline();
  const [isOpen, open] = useState(false);
  const [first, form] = [useRef(null), useRef(null)];
  const isBack = useRef(false);
  useEffect(() => {
    if (isOpen) form.current.querySelector('input, select').focus();
    else if (isBack.current) first.current?.focus();
    isBack.current = isOpen;
  }, [isOpen]);
  if (!isOpen) return html`<p key="first"><button ref=${first} disabled=${!online} onClick=${() => open(true)}>${word}…</button></p>`;
  const submit = (event) => {
    event.preventDefault();
    send(Object.fromEntries(new FormData(event.target))).then((isMade) => isMade && open(false));
  };
  return html`<form key="second" ref=${form} class="card" onSubmit=${submit} onKeyDown=${(event) => { if (event.key === 'Escape') open(false); }}>${children}
    <p class="row"><button disabled=${!online}>${word}</button><button type="button" onClick=${() => open(false)}>Cancel</button></p></form>`;
}

/** Asks for a strategy lock. `made` gets the promise of the request and tells whether it succeeded. */
export function LockForm({ made }) {
  const send = ({ actions, project, day, reason, three }) => made(
    api('POST', '/strategy-locks', { scope: project || '*', actions: words(actions), valid_until: endOf(day), reason, three_wise: three === 'on' }), 'Asked for: an approver decides');
  return html`<${Form} word="Ask for a strategy lock" send=${send}>
    <p><label for="lock-actions">Actions, with commas between them; * is all, x.* all that begin so</label><input id="lock-actions" name="actions" required maxlength="500" /></p>
    <p><label for="lock-project">Project; empty for all</label><input id="lock-project" name="project" maxlength="128" /></p>
    <p><label for="lock-day">Last day</label><input id="lock-day" name="day" type="date" required value=${dayAfter(30)} /></p>
    <p><label for="lock-reason">What is planned</label><input id="lock-reason" name="reason" required maxlength="500" /></p>
    <p><label><input name="three" type="checkbox" /> Three persons must approve it</label></p><//>`;
}

/** Issues a licence, in the same way. */
export function LicenceForm({ made }) {
  const send = ({ kind, name, role, act, actions, project, day, uses, reason }) => {
    const body = { subject: { [kind]: kind === 'role' ? role : name }, valid_until: endOf(day), reason };
    if (act) body.class = act;
    if (words(actions).length) body.actions = words(actions);
    if (project) body.project = project;
    if (uses) body.uses_max = Number(uses);
    return made(api('POST', '/firearms/licences', body), 'Issued');
  };
  const [kind, choose] = useState('user');
  return html`<${Form} word="Issue a licence" send=${send}>
    <p><label for="licence-kind">For</label><select id="licence-kind" name="kind" value=${kind} onChange=${(event) => choose(event.target.value)}>
      <option value="user">a user</option><option value="role">a role</option><option value="agent">an agent</option></select></p>
    ${kind === 'role' ? html`<p><label for="licence-role">Role</label><select id="licence-role" name="role">${ROLES.map((role) => html`<option>${role}</option>`)}</select></p>`
      : html`<p><label for="licence-name">Name</label><input id="licence-name" name="name" required maxlength="128" /></p>`}
    <p><label for="licence-class">Class of actions</label><select id="licence-class" name="act"><option value="">none</option>${CLASSES.map((it) => html`<option>${it}</option>`)}</select></p>
    <p><label for="licence-actions">Or actions by name, with commas between them</label><input id="licence-actions" name="actions" maxlength="500" /></p>
    <p><label for="licence-project">Project; empty for all</label><input id="licence-project" name="project" maxlength="128" /></p>
    <p><label for="licence-day">Last day</label><input id="licence-day" name="day" type="date" required value=${dayAfter(7)} /></p>
    <p><label for="licence-uses">Uses; empty for any number</label><input id="licence-uses" name="uses" type="number" min="1" step="1" /></p>
    <p><label for="licence-reason">Reason</label><input id="licence-reason" name="reason" required maxlength="500" /></p><//>`;
}
