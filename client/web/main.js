// The page: which view is open, for which process and window, and when it is asked for again.
import { get, query } from './api.js';
import { element } from './dom.js';
import { flame } from './flame.js';
import { memory } from './memory.js';
import { overview } from './overview.js';
import { timeline } from './timeline.js';

const VIEWS = { overview, timeline, memory, flame };
const WINDOWS = [['10 s', 10], ['1 min', 60], ['5 min', 300], ['1 h', 3600], ['all', 0]];
const REFRESH_MS = 2000;

const byId = (id) => document.getElementById(id);
const root = byId('view');
let opened = null, timer = 0, running = null;

const page = {
  pid: '',
  seconds: 60,
  clock: null, // the server's
  marked: [], // times, on the timeline
  window() {
    return page.seconds ? { since: -page.seconds * 1e9 } : { since: 1 };
  },
  refresh: () => refresh(),
  choose(pid) {
    page.pid = String(pid);
    listProcesses().then(refresh);
  },
};

function say(error) {
  byId('trouble').hidden = !error;
  byId('trouble').textContent = error ? error.message : '';
}

async function listProcesses() {
  const select = byId('process');
  const answer = await query('processes', { since: 1, limit: 200 }).catch(() => null);
  if (!answer || select.matches(':focus'))
    return;
  const rows = new Map(answer.rows.map((row) => [String(row.pid), `${row.pid} ${row.comm}`]));
  if (page.pid && !rows.has(page.pid))
    rows.set(page.pid, page.pid);
  select.replaceChildren(element('option', { value: '' }, 'all'),
    ...[...rows].map(([pid, name]) => element('option', { value: pid, selected: pid === page.pid }, name)),
    answer.truncated ? element('option', { disabled: true }, 'and more') : '');
}

async function refresh() {
  clearTimeout(timer);
  running?.abort(); // who asks anew does not wait for the old answer
  const mine = running = new AbortController();
  try {
    page.clock = await get('clock', {}, mine.signal);
    await opened.refresh(page, root, mine.signal);
    say(null);
    const wall = new Date((page.clock.now_ns + page.clock.wall_offset_ns) / 1e6);
    byId('state').textContent = page.clock.file ? page.clock.file : `${wall.toLocaleTimeString()} · ${page.clock.version}`;
  } catch (error) {
    if (mine.signal.aborted)
      return;
    page.clock = null;
    say(error instanceof TypeError ? new Error('tsctl serve does not answer any more') : error);
  }
  document.documentElement.dataset.rounds = Number(document.documentElement.dataset.rounds ?? 0) + 1;
  if (byId('live').checked && opened.live && !page.clock?.file)
    timer = setTimeout(refresh, REFRESH_MS);
}

function open() {
  const name = location.hash.slice(1).split('?')[0];
  opened?.close?.();
  opened = VIEWS[name] ?? overview;
  for (const link of byId('views').children)
    link.toggleAttribute('aria-current', VIEWS[link.hash.slice(1)] === opened);
  root.classList.toggle('full', Boolean(opened.full));
  opened.open(page, root);
  refresh();
}

byId('views').append(...Object.entries(VIEWS).map(([key, view]) => element('a', { href: `#${key}` }, view.name)));
byId('window').append(...WINDOWS.map(([name, seconds]) =>
  element('option', { value: seconds, selected: seconds === page.seconds }, name)));
byId('window').addEventListener('change', (event) => {
  page.seconds = Number(event.target.value);
  refresh();
});
byId('process').addEventListener('change', (event) => {
  page.pid = event.target.value;
  refresh();
});
byId('live').addEventListener('change', refresh);
byId('theme').addEventListener('click', () => {
  const dark = getComputedStyle(document.documentElement).colorScheme === 'dark';
  document.documentElement.dataset.theme = dark ? 'light' : 'dark';
  opened.repaint?.();
});
window.addEventListener('hashchange', open);
document.addEventListener('visibilitychange', () => {
  if (document.hidden)
    clearTimeout(timer);
  else
    refresh();
});
page.clock = await get('clock').catch(() => null);
if (page.clock?.file) { // a recording is shown as a whole
  page.seconds = 0;
  byId('window').value = 0;
  byId('live').parentElement.hidden = true;
}
await listProcesses();
setInterval(listProcesses, 15000);
open();
