// The screen of a session in its frame: an origin of its own, to which bytes go by a port and from which only sizes come back.
import { useEffect, useRef } from '../../vendor/hooks.js';
import { html } from '../ui.js';

/** Keys that the frame passes on: those of a session and its replay, and none that answers or stops anything. */
const KEYS = [' ', 't', 'f', 'ArrowLeft', 'ArrowRight', ',', '.'];

/** Messages for a frame that isn't loaded yet wait in their order. */
export function makeScreen() {
  const waiting = [];
  let port = null;
  const screen = {
    onSize: () => {},
    onDrawn: () => {},
    post(message) {
      if (port) port.postMessage(message);
      else {
        // A new beginning makes what came before it needless.
        if (message.k === 'begin') waiting.length = 0;
        waiting.push(message);
      }
    },
    /** What the screen shows, as text. */
    read: () => new Promise((done) => { screen.onText = done; screen.post({ k: 'read' }); }),
    attach(frame) {
      const channel = new MessageChannel();
      channel.port1.onmessage = ({ data }) => {
        if (data.k === 'ready') {
          port = channel.port1;
          waiting.forEach((message) => port.postMessage(message));
          waiting.length = 0;
        }
        if (data.k === 'size') screen.onSize(data.height);
        // A click has given the frame the focus; the session's keys go on.
        if (data.k === 'key' && KEYS.includes(data.key)) frame.dispatchEvent(new KeyboardEvent('keydown', { key: data.key, bubbles: true, cancelable: true }));
        if (data.k === 'drawn') screen.onDrawn();
        if (data.k === 'text') screen.onText?.(data);
      };
      frame.contentWindow.postMessage('screen', '*', [channel.port2]);
    },
    leave() { port = null; },
  };
  return screen;
}

export function Screen({ screen }) {
  const frame = useRef(null);
  useEffect(() => {
    screen.onSize = (height) => { if (frame.current) frame.current.style.height = `${height}px`; };
    return () => screen.leave();
  }, [screen]);
  return html`<iframe class="screen" ref=${frame} src="terminal/frame.html" sandbox="allow-scripts" title="Screen of the session"
    onLoad=${() => screen.attach(frame.current)}></iframe>`;
}
