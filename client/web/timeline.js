// Timeline: lanes of devices, streams, ranges and threads on a canvas. The server sends what covers each pixel column;
// what was sent is drawn scaled until the answer for a new window is there, so zooming and panning never wait.
import { get, query } from './api.js';
import { element, stack, table } from './dom.js';
import { bytes, count, duration, share, text, timeOfDay } from './format.js';

const GUTTER = 190, RULER = 22, SPAN = 5; // SPAN: numbers of one in the answer
const HEIGHTS = { states: 12, work: 18, ranges: 15, calls: 15, memory: 42, head: 20 };
const ORDER = ['states', 'work', 'ranges', 'calls', 'memory'];
const ASK_MS = 60, LEAST_NS = 50, MOST_NS = 183 * 86400e9, LAST_NS = 2 ** 62, FACTOR = 1.25, STEP = 0.1, HATCH = 8, SUM_OPS = 200000;
const NAMED = ['running', 'copying', 'pending', 'waiting', 'syncing', 'idle'];
const OF_KIND = { copy: 'copying', set: 'copying', sync: 'syncing', launch: 'pending', event: 'waiting' };
const HELP = 'W S: zoom · A D: pan · drag: pan · Shift+drag: sum up · Ctrl+wheel: zoom · click: details · F: all';

let page = null, canvas, details, found, note, legend = {};
let shown = null; // the window on the screen
let answer = null, answers = 0, rows = [], scroll = 0, selected = null, range = null, search = '', grip = null;
let asking = null, timer = 0, painting = false, follow = true, mouse = null, beyond = false;

function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  legend = Object.fromEntries([...NAMED, 'back', 'panel', 'text', 'dim', 'line', 'mark', 'bad'].map((name) => [name, of(name)]));
  legend.dark = style.colorScheme === 'dark';
}

function colour([kind, name]) {
  const meant = kind === 'state' ? name : OF_KIND[kind];
  if (meant)
    return legend[meant] ?? legend.dim;
  let hash = 7;
  for (const character of name)
    hash = (hash * 31 + character.codePointAt(0)) % 3600;
  return `hsl(${hash / 10} ${kind === 'kernel' ? 48 : 22}% ${legend.dark ? 58 : 52}%)`;
}

const width = () => Math.max(canvas.clientWidth - GUTTER, 1);
const toX = (ns) => GUTTER + (ns - shown.since) / (shown.until - shown.since) * width();
const toTime = (x) => shown.since + (x - GUTTER) / width() * (shown.until - shown.since);

function title(lane) {
  const device = lane.device >= 0 ? `GPU ${lane.device}` : 'GPU ?';
  return { states: `${device}`, work: lane.id ? `${device} stream ${lane.id}` : `${device} no stream`,
    ranges: lane.depth ? '' : `ranges of ${lane.id}`, calls: `thread ${lane.id}`, memory: `${device} memory` }[lane.what];
}

// One row a lane, under a head for each process.
function arrange() {
  const lanes = answer.lanes.slice().sort((a, b) => a.process - b.process || ORDER.indexOf(a.what) - ORDER.indexOf(b.what) ||
    a.device - b.device || a.id - b.id || a.depth - b.depth);
  let y = RULER, process = null;
  rows = [];
  for (const lane of lanes) {
    if (lane.process !== process) {
      const [pid, comm] = answer.processes[lane.process] ?? ['?', ''];
      rows.push({ y, height: HEIGHTS.head, title: `${pid} ${comm}` });
      y += HEIGHTS.head;
      process = lane.process;
    }
    rows.push({ y, height: HEIGHTS[lane.what], title: title(lane), lane });
    y += HEIGHTS[lane.what] + 2;
  }
  scroll = Math.max(0, Math.min(scroll, y - canvas.clientHeight));
  if (selected && selected.lane)
    selected.lane = lanes.find((lane) => ['what', 'process', 'id', 'device', 'depth'].every((key) => lane[key] === selected.lane[key]));
}

function paintSpans(draw, row, y, height) {
  const { spans, what } = row.lane, unit = answer.unit_ns;
  const most = what === 'memory' ? spans.reduce((most, value, i) => i % SPAN === 4 ? Math.max(most, value) : most, 1) : 0;
  let last = null;
  for (let i = 0; i < spans.length; i += SPAN) {
    const name = answer.names[spans[i + 2]], value = spans[i + 4];
    const x = toX(answer.since + spans[i] * unit), end = toX(answer.since + (spans[i] + spans[i + 1]) * unit);
    if (what === 'memory') { // what is held stays until the next change
      if (last)
        draw.fillRect(last.x, y + height * (1 - last.value / most), x - last.x, height * last.value / most);
      draw.fillStyle = legend.mark;
      last = { x, value };
      continue;
    }
    if (end < GUTTER || x > canvas.clientWidth)
      continue;
    const wide = Math.max(end - x, 0.7);
    const bright = Math.abs(value) / 1000, hit = search && name[1].toLowerCase().includes(search);
    const strong = (search && !hit ? 0.15 : 1) * (value < 0 ? 0.45 : 1) * (0.3 + 0.7 * bright);
    draw.globalAlpha = strong;
    draw.fillStyle = colour(name);
    draw.fillRect(x, y, wide, height);
    draw.globalAlpha = 1;
    if (selected && selected.name === name[1]) {
      draw.strokeStyle = legend.text;
      draw.strokeRect(x + 0.5, y + 0.5, Math.max(wide - 1, 0.5), height - 1);
    }
    const from = Math.max(x, GUTTER);
    if (end - from > 30 && height > 12) {
      draw.fillStyle = strong > 0.6 ? legend.back : legend.text;
      draw.fillText(cut(draw, name[1], end - from - 6), from + 3, y + height - 4.5);
    }
  }
  if (last) {
    const end = toX(answer.since + answer.columns * 8 * unit);
    draw.fillRect(last.x, y + height * (1 - last.value / most), end - last.x, height * last.value / most);
    draw.fillStyle = legend.text;
    draw.fillText(bytes(most), GUTTER + 3, y + 10);
  }
}

function cut(draw, name, room) {
  const each = draw.measureText('m').width * 0.75;
  return name.length * each <= room ? name : `${name.slice(0, Math.max(0, Math.floor(room / each) - 1))}…`;
}

const time = (ns) => timeOfDay(ns, page.clock);
const fine = (ns) => timeOfDay(ns, page.clock, 6);

// Round times, counted from a rounder one, whose time of day stands in the corner.
function marks() {
  const span = shown.until - shown.since, rough = span / (width() / 110), base = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * base).find((size) => size >= rough);
  const zero = Math.floor(shown.since / (100 * step)) * 100 * step;
  const times = [];
  for (let i = Math.ceil((shown.since - zero) / step); zero + i * step < shown.until; i++)
    times.push(i * step);
  return { zero, times, label: (after) => step < 1e9 ? `+${duration(Math.round(after))}` : time(zero + after).slice(0, 8) };
}

function paintGrid(draw, { zero, times }) {
  draw.strokeStyle = legend.line;
  draw.beginPath();
  for (const after of times) {
    const x = Math.round(toX(zero + after)) + 0.5;
    draw.moveTo(x, RULER - 5);
    draw.lineTo(x, canvas.clientHeight);
  }
  draw.stroke();
}

function paintRuler(draw, { zero, times, label }) {
  draw.fillStyle = legend.panel;
  draw.fillRect(0, 0, canvas.clientWidth, RULER);
  draw.fillStyle = legend.dim;
  for (const after of times)
    draw.fillText(label(after), toX(zero + after) + 3, 14);
  draw.fillStyle = legend.panel;
  draw.fillRect(0, 0, GUTTER, RULER);
  draw.fillStyle = legend.dim;
  draw.fillText(`${time(times.length > 1 && times[1] - times[0] >= 1e9 ? shown.since : zero)} · shows ${duration(Math.round(shown.until - shown.since))}`, 6, 14);
}

// Where something is missing, and what: hatched over all lanes.
function paintLosses(draw) {
  draw.strokeStyle = legend.bad;
  draw.globalAlpha = 0.25;
  draw.beginPath();
  const hatched = new Set(); // however many lie there
  for (const [, from, to] of answer.losses) {
    const x = Math.max(toX(answer.since + from), GUTTER), end = Math.min(toX(answer.since + to), canvas.clientWidth);
    for (let at = GUTTER + Math.floor((x - GUTTER) / HATCH) * HATCH; at < end; at += HATCH)
      hatched.add(at);
  }
  for (const at of hatched) {
    draw.moveTo(at, RULER);
    draw.lineTo(at + 6, RULER + 6);
  }
  draw.stroke();
  draw.globalAlpha = 1;
}

// Of an operation, at a time; null: its lane is not shown.
function place({ what, id, process }, ns) {
  const row = rows.find(({ lane }) => lane?.what === what && lane.id === id && lane.process === process);
  return row ? { x: toX(ns), y: row.y - scroll + row.height / 2 } : null;
}

function paintArrow(draw, from, to, colour) {
  if (!from || !to)
    return 0;
  draw.strokeStyle = draw.fillStyle = colour;
  draw.beginPath();
  draw.moveTo(from.x, from.y);
  draw.bezierCurveTo(from.x + 30, from.y, to.x - 30, to.y, to.x, to.y);
  draw.stroke();
  draw.fillRect(to.x - 3, to.y - 3, 6, 6);
  return 1;
}

// A call that waits goes on when it ends, work when it starts.
const goesOn = (item) => item.what === 'calls' ? item.end : item.start;

// From the call to its work, from what the selected one waited for, and to what waited for it.
function paintArrows(draw) {
  const { op, waits, process } = selected ?? {};
  let painted = 0;
  if (op) {
    draw.save();
    draw.beginPath();
    draw.rect(GUTTER, RULER, width(), canvas.clientHeight);
    draw.clip();
    if (op.gpu_start_ns)
      painted += paintArrow(draw, place({ what: 'calls', id: op.tid, process }, op.start_ns),
        place({ what: 'work', id: op.stream, process }, op.gpu_start_ns), legend.mark);
    for (const item of waits?.before ?? [])
      painted += paintArrow(draw, place(item, item.end), place(waits.own, goesOn(waits.own)), legend.waiting);
    for (const item of waits?.after ?? [])
      painted += paintArrow(draw, place(waits.own, waits.own.end), place(item, goesOn(item)), legend.syncing);
    draw.restore();
  }
  canvas.dataset.arrows = painted;
}

function paint() {
  painting = false;
  if (!shown || !canvas.isConnected)
    return;
  const ratio = devicePixelRatio || 1, draw = canvas.getContext('2d');
  if (canvas.width !== Math.round(canvas.clientWidth * ratio) || canvas.height !== Math.round(canvas.clientHeight * ratio)) {
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(canvas.clientHeight * ratio);
  }
  colours();
  draw.setTransform(ratio, 0, 0, ratio, 0, 0);
  draw.font = '11px system-ui, sans-serif';
  draw.fillStyle = legend.back;
  draw.fillRect(0, 0, canvas.clientWidth, canvas.clientHeight);
  const ruler = marks();
  paintGrid(draw, ruler);
  for (const row of answer ? rows : []) {
    const y = row.y - scroll;
    if (y + row.height < RULER || y > canvas.clientHeight)
      continue;
    if (row.lane)
      paintSpans(draw, row, y, row.height);
    draw.fillStyle = legend.panel;
    draw.fillRect(0, y, GUTTER, row.height + 2);
    draw.fillStyle = row.lane ? legend.dim : legend.text;
    draw.fillText(cut(draw, row.title, GUTTER - 12), row.lane ? 14 : 6, y + Math.min(row.height, 18) - 4);
  }
  if (answer)
    paintLosses(draw);
  if (range) {
    draw.globalAlpha = 0.2;
    draw.fillStyle = legend.mark;
    draw.fillRect(toX(range.since), RULER, toX(range.until) - toX(range.since), canvas.clientHeight);
    draw.globalAlpha = 1;
  }
  paintRuler(draw, ruler);
  paintArrows(draw);
  canvas.dataset.painted = Number(canvas.dataset.painted ?? 0) + 1;
  canvas.dataset.answers = answers; // that have been drawn
}

function repaint() {
  if (!painting)
    requestAnimationFrame(paint);
  painting = true;
}

async function ask() {
  asking?.abort();
  const mine = asking = new AbortController();
  const margin = (shown.until - shown.since) / 4, columns = Math.max(100, Math.min(4096, Math.round(width() * 1.5)));
  const since = Math.max(1, Math.floor(shown.since - margin)), until = Math.ceil(shown.until + margin);
  try {
    const got = await get('timeline', { since, until, columns, pid: page.pid }, mine.signal);
    answer = got;
    arrange();
    const said = [`${count(got.ops)} operations`];
    if (got.coarse)
      said.push('too many to draw: states by the second; zoom in for each');
    if (got.left_out)
      said.push(`${count(got.left_out)} lanes are left out: choose a process, or zoom in`);
    if (got.cut)
      said.push('not all operations are drawn: choose a process, or zoom in');
    if (beyond)
      said.push('operations with impossible times, or from more than half a year before the end, are not shown');
    if (got.missing)
      said.push(got.missing);
    note.textContent = said.join(' · ');
    answers++;
    repaint();
  } catch (error) {
    if (!mine.signal.aborted)
      note.textContent = error.message;
  }
}

function show(since, until, soon = ASK_MS) {
  const half = Math.min(Math.max(until - since, LEAST_NS), MOST_NS) / 2;
  const middle = Math.min(Math.max((since + until) / 2, half), LAST_NS - half);
  shown = { since: middle - half, until: middle + half };
  clearTimeout(timer);
  timer = setTimeout(ask, soon);
  repaint();
}

function zoom(factor, x = mouse ?? GUTTER + width() / 2) {
  const at = toTime(x);
  follow = false;
  show(at - (at - shown.since) * factor, at + (shown.until - at) * factor);
}

function pan(part) {
  const by = (shown.until - shown.since) * part;
  follow = false;
  show(shown.since + by, shown.until + by);
}

async function whole() {
  const now = page.clock?.now_ns ?? 0;
  beyond = false;
  if (page.seconds)
    return { since: now - page.seconds * 1e9, until: now };
  const extent = await get('extent', { pid: page.pid });
  beyond = extent.cut;
  return extent.until > extent.since ? extent : { since: now - 60e9, until: now };
}

function spanAt(x, y) {
  const row = rows.find((row) => row.lane && y + scroll >= row.y && y + scroll < row.y + row.height);
  if (!row || x < GUTTER || row.lane.what === 'memory')
    return null;
  const { spans } = row.lane;
  let best = null;
  for (let i = 0; i < spans.length; i += SPAN) {
    const start = answer.since + spans[i] * answer.unit_ns, end = start + spans[i + 1] * answer.unit_ns;
    const off = Math.max(toX(start) - x, x - toX(end), 0);
    if (off < 4 && (!best || off <= best.off))
      best = { off, start, end, lane: row.lane, process: row.lane.process, name: answer.names[spans[i + 2]][1], kind: answer.names[spans[i + 2]][0], count: spans[i + 3] };
  }
  return best;
}

const FIELDS = [['kernel', 'name'], ['call', 'fn'], ['kind', 'kind'], ['kind of it', 'detail'], ['thread', 'tid'], ['stream', 'stream'],
  ['device', 'device'], ['call at', 'start_ns', fine], ['call took', 'call_ns', duration], ['on the device at', 'gpu_start_ns', fine],
  ['took there', 'gpu_ns', duration], ['waited before', 'delay_ns', duration], ['bytes', 'bytes', bytes], ['grid', 'grid'], ['block', 'block'],
  ['shared memory', 'shared_bytes', bytes], ['registers', 'registers'], ['result', 'result']];

function describe(op) {
  const rows = FIELDS.filter(([, key]) => op[key] !== null && op[key] !== undefined && op[key] !== '').map(([label, key, form]) =>
    [label, form ? form(op[key]) : text(op[key])]);
  details.replaceChildren(element('h2', {}, text(op.name ?? op.fn ?? op.detail)), table(rows, [['', (row) => row[0]], ['', (row) => row[1], 'text']]),
    op.bounds ? element('p', { class: 'note' }, 'It ran somewhere in this time: the probe tier knows no more.') : '',
    stack(op.stack, 48) ?? element('p', { class: 'dim' }, 'No stack was taken.'));
}

const WHY = { event: 'an event', 'default stream': 'the default stream', engine: 'a full engine', graph: 'in its graph',
  wait: 'a thread waited', 'full queue': 'a full queue' };

function list(title, items, left, behind) {
  if (!items.length)
    return '';
  const all = table(items, [['', (item) => text(item.name), 'text'], ['', (item) => item.why === 'stream' ? `${behind} it on its stream` : WHY[item.why] ?? item.why], ['took', (item) => duration(item.end - item.start), 'number']]);
  return element('div', {}, element('h3', {}, title), all, left ? element('p', { class: 'note' }, `and ${count(left)} more`) : '');
}

// In what the screen shows or, if that is too much, around the operation.
async function askWaits(span, { what, process, id }) {
  const { op } = span, work = what === 'work';
  const start = work ? op.gpu_start_ns : op.start_ns, end = Math.max(work ? start + op.gpu_ns : 0, op.start_ns + (op.call_ns ?? 0));
  const asked = { what, id, pid: op.pid, at: start }, around = Math.max(5 * (end - op.start_ns), 1e6);
  let waits = null;
  for (const room of [Math.max(shown.until - shown.since, around), around]) {
    const since = Math.max(1, Math.floor(op.start_ns - room)), until = Math.ceil(end + room);
    waits = await get('waits', { ...asked, since, until }).catch((error) => ({ error }));
    if (!waits.error)
      break;
  }
  if (selected !== span)
    return;
  if (waits.error) {
    details.append(element('p', { class: 'note' }, `What it waited for is not shown: ${waits.error.message}`));
    return;
  }
  span.waits = { ...waits, own: { what, id, process, start, end: work ? start + op.gpu_ns : end } };
  details.append(list('It waited for', waits.before, waits.before_left_out, 'before'), list('Waited for it', waits.after, waits.after_left_out, 'behind'));
}

async function select(span) {
  selected = span;
  repaint();
  if (!span) {
    details.replaceChildren();
    return;
  }
  if (span.lane.what === 'states') {
    details.replaceChildren(element('h2', {}, span.name), element('p', {}, `for ${duration(Math.round(span.end - span.start))}`));
    return;
  }
  const { what, process, id } = span.lane;
  try {
    const { rows: [op] } = await query(`page-op-${what}`, { process, [what === 'work' ? 'stream' : 'tid']: id,
      since: Math.round((span.start + span.end) / 2), step_ns: Math.ceil(span.end - span.start) });
    if (selected !== span)
      return;
    if (!op)
      throw new Error('It is no longer there.');
    span.op = op;
    describe(op);
    if (span.count > 1)
      details.append(element('p', { class: 'note' }, `${count(span.count)} operations lie here: zoom in to see each.`));
    if ((what === 'work' && op.gpu_start_ns && !op.bounds) || what === 'calls')
      await askWaits(span, { what, process, id });
  } catch (error) {
    details.replaceChildren(element('p', { class: 'bad' }, error.message));
  }
  repaint();
}

const SUMS = [['kernels', (row) => row.kind === 'kernel' || row.kind === 'launch'], ['copies and sets', (row) => row.kind === 'copy' || row.kind === 'set'],
  ['calls', (row) => row.kind === 'call']];

// Of more operations than SUM_OPS there are only sums by the second.
async function sumUp({ since, until }) {
  const window = { since: Math.max(1, Math.floor(since)), until: Math.ceil(until), pid: page.pid }, long = until - since;
  const asked = (name, more) => query(name, { ...window, ...more }).catch((error) => ({ rows: [], note: error.message }));
  const { rows: [extent] } = await asked('page-extent', {}), exact = extent && extent.ops <= SUM_OPS;
  const title = `${duration(Math.round(long))}${exact ? '' : ', to the second'}`;
  const states = [['device', (row) => text(row.device)], ['state', (row) => row.state ?? row.name], ['share', (row) => share(row.share ?? 1e6 * row.ns / long), 'number']];
  const sums = (heading) => [['total', (row) => duration(row.total_ns ?? row.ns), 'number'], ['count', (row) => count(row.count), 'number'], [heading, (row) => text(row.name), 'text']];
  if (!page.pid)
    states.unshift(['pid', (row) => text(row.pid), 'number']);
  if (exact) {
    const { rows, note } = await asked('page-sum', {}), some = SUMS.map(([heading, is]) => [heading, rows.filter(is).slice(0, 12)]).filter(([, found]) => found.length);
    const of = rows.filter((row) => row.kind === 'state').sort((a, b) => a.pid - b.pid || a.device - b.device || b.ns - a.ns);
    details.replaceChildren(element('h2', {}, title), of.length ? table(of, states) : '', ...some.map(([heading, found]) => table(found, sums(heading))),
      !rows.length ? element('p', { class: 'note' }, note || 'Nothing was done.') : '');
    return;
  }
  const [kernels, idle] = await Promise.all([asked('kernels', { limit: 12 }), asked('idle', { limit: 24 })]);
  details.replaceChildren(element('h2', {}, title), table(idle.rows, states), table(kernels.rows, sums('kernel')),
    kernels.note ? element('p', { class: 'note' }, kernels.note) : '');
}

const KEYS = { w: () => zoom(1 / FACTOR), s: () => zoom(FACTOR), a: () => pan(-STEP), d: () => pan(STEP),
  ArrowLeft: () => pan(-STEP), ArrowRight: () => pan(STEP), ArrowUp: () => zoom(1 / FACTOR), ArrowDown: () => zoom(FACTOR),
  Escape: () => select(range = null), f: () => { follow = true; begin(); } };

function onKey(event) {
  if (event.target.matches('input, select') || event.ctrlKey || event.metaKey || event.altKey || !shown || !KEYS[event.key])
    return;
  event.preventDefault();
  KEYS[event.key]();
}

function onDown(event) {
  canvas.setPointerCapture(event.pointerId);
  grip = { x: event.offsetX, y: event.offsetY, moved: false, sums: event.shiftKey, shown: { ...shown }, scroll };
}

function onMove(event) {
  mouse = Math.max(GUTTER, event.offsetX);
  if (!grip) {
    const span = answer && spanAt(event.offsetX, event.offsetY);
    canvas.title = span ? `${span.name}: ${duration(Math.round(span.end - span.start))}${span.count > 1 ? `, ${count(span.count)} operations` : ''}` : '';
    return;
  }
  grip.moved ||= Math.abs(event.offsetX - grip.x) + Math.abs(event.offsetY - grip.y) > 3;
  if (!grip.moved)
    return;
  if (grip.sums) {
    const times = [toTime(grip.x), toTime(event.offsetX)].sort((a, b) => a - b);
    range = { since: times[0], until: times[1] };
    repaint();
    return;
  }
  const by = (grip.x - event.offsetX) / width() * (grip.shown.until - grip.shown.since);
  follow = false;
  scroll = Math.max(0, grip.scroll + grip.y - event.offsetY);
  show(grip.shown.since + by, grip.shown.until + by);
}

function onUp(event) {
  const held = grip;
  grip = null;
  if (held?.sums && held.moved) {
    page.marked = [...page.marked.slice(-1), range];
    sumUp(range);
  }
  if (held && !held.moved && answer)
    select(spanAt(event.offsetX, event.offsetY));
}

function onWheel(event) {
  event.preventDefault();
  if (event.ctrlKey || event.metaKey)
    zoom(event.deltaY > 0 ? FACTOR : 1 / FACTOR, event.offsetX);
  else if (Math.abs(event.deltaX) > Math.abs(event.deltaY))
    pan(event.deltaX / width());
  else {
    scroll = Math.max(0, scroll + event.deltaY);
    if (answer)
      arrange();
    repaint();
  }
}

async function begin() {
  const { since, until } = await whole();
  show(since, until, 0);
}

export const timeline = {
  name: 'Timeline',
  live: true,
  full: true,
  open(opened, root) {
    page = opened;
    shown = answer = selected = range = null;
    answers = 0;
    rows = [];
    follow = true;
    canvas = element('canvas', { id: 'lanes', tabindex: 0, onpointerdown: onDown, onpointermove: onMove, onpointerup: onUp, onwheel: onWheel, onpointerleave: () => { mouse = null; },
      ondblclick: (event) => { const span = spanAt(event.offsetX, event.offsetY); if (span) { follow = false; show(span.start, span.end); } } });
    details = element('aside', { id: 'details' });
    note = element('span', { class: 'dim' });
    found = element('input', { type: 'search', id: 'search', placeholder: 'search names', oninput: () => { search = found.value.toLowerCase(); repaint(); } });
    search = '';
    root.replaceChildren(element('div', { class: 'tools' }, found, note, element('span', { class: 'dim help' }, HELP)),
      element('div', { class: 'lanes' }, canvas, details));
    document.addEventListener('keydown', onKey);
    new ResizeObserver(repaint).observe(canvas);
  },
  repaint,
  close() {
    document.removeEventListener('keydown', onKey);
    asking?.abort();
    clearTimeout(timer);
  },
  // Live, it follows; one who looks at something is left alone.
  async refresh() {
    if (!shown || follow)
      await begin();
  },
};
