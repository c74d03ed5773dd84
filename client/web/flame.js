// Flame graph: what the code paths of a process took, or hold. The widest are the most; a click zooms. Compared with
// another time or recording, what there is more of is red, what there is less of blue; both together make the width.
import { get } from './api.js';
import { element } from './dom.js';
import { bytes, count, duration, share } from './format.js';

const KINDS = [['gpu', 'GPU time', duration], ['waits', 'waits', duration], ['launches', 'launches', count],
  ['memory', 'memory held', bytes], ['leaks', 'leaks', bytes]];
const AGAINST = [['', 'alone'], ['before', 'compared with the same time before'], ['marked', 'the last time that was marked, compared with the one before'],
  ['other', 'the second recording, compared with this one']];
const ROW = 18, NARROW = 0.5;

let of = KINDS[0], against = null, canvas, said, found, boxes = [], compared = false, zoomed = null, search = '', height = 0, shown = null;

// The answer is a walk through the tree: depth, name, sum. Adds it to what is there, as the sums of one side.
function add(root, { nodes, names, total }, side, both) {
  const path = [root];
  root.sum[side] = total;
  for (let i = 0; i < nodes.length; i += 3) {
    const depth = nodes[i] + 1, parent = path[depth - 1];
    const name = both && depth === 1 ? names[nodes[i + 1]].replace(/^\d+ /, '') : names[nodes[i + 1]]; // the same program has another pid
    let box = parent.children.get(name);
    if (!box)
      parent.children.set(name, box = { name, sum: [0, 0], depth, parent, children: new Map() });
    box.sum[side] += nodes[i + 2];
    path[depth] = box;
  }
}

// A box starts where the one before it ends.
function layOut(answers) {
  const root = { name: 'all', sum: [0, 0], depth: 0, parent: null, start: 0, children: new Map() };
  answers.forEach((answer, side) => add(root, answer, side, answers.length > 1));
  boxes = [];
  const place = (box, start) => {
    box.start = start;
    box.value = box.sum[0] + box.sum[1];
    boxes.push(box);
    for (const child of box.children.values()) {
      place(child, start);
      start += child.value;
    }
  };
  place(root, 0);
  compared = answers.length > 1;
  height = (boxes.reduce((most, box) => Math.max(most, box.depth), 0) + 1) * ROW;
}

// How a box is told: the first of two sums is the older one.
function words(box) {
  const [a, b] = box.sum;
  if (!compared)
    return `${of[2](a)}, ${share(1e6 * a / boxes[0].value)} of all`;
  return `${of[2](a)} → ${of[2](b)} (${!a ? 'new' : !b ? 'gone' : `${b < a ? '−' : '+'}${share(1e6 * Math.abs(b - a) / a)}`})`;
}

function fill(box, dark) {
  const [a, b] = box.sum;
  if (compared) {
    const change = (b - a) / Math.max(a, b, 1), pale = dark ? 30 : 88;
    return `hsl(${change > 0 ? 8 : 215} ${Math.round(80 * Math.abs(change))}% ${Math.round(pale + Math.abs(change) * (dark ? 20 : -26))}%)`;
  }
  let hash = 3;
  for (const character of box.name)
    hash = (hash * 31 + character.codePointAt(0)) % 1000;
  return `hsl(${10 + hash / 25} ${search ? 8 : 60}% ${dark ? 42 : 68}%)`;
}

const key = (box) => box ? `${key(box.parent)}\n${box.name}` : '';

function place(box) {
  const wide = canvas.clientWidth, scale = wide / zoomed.value;
  const above = box.depth < zoomed.depth;
  return above ? { x: 0, wide } : { x: (box.start - zoomed.start) * scale, wide: box.value * scale };
}

function isShown(box) {
  const holds = box.start <= zoomed.start && box.start + box.value >= zoomed.start + zoomed.value;
  const within = box.start >= zoomed.start && box.start + box.value <= zoomed.start + zoomed.value;
  return box.depth <= zoomed.depth ? holds : within;
}

function paint() {
  if (!zoomed || !canvas.isConnected)
    return;
  const ratio = devicePixelRatio || 1, draw = canvas.getContext('2d'), style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim(), dark = style.colorScheme === 'dark';
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(canvas.clientWidth * ratio);
  canvas.height = Math.round(height * ratio);
  draw.setTransform(ratio, 0, 0, ratio, 0, 0);
  draw.font = '11px system-ui, sans-serif';
  for (const box of boxes) {
    if (!isShown(box))
      continue;
    const { x, wide } = place(box), y = box.depth * ROW;
    if (wide < NARROW)
      continue;
    const hit = search && box.name.toLowerCase().includes(search);
    draw.fillStyle = hit ? of('mark') : fill(box, dark);
    draw.fillRect(x, y, Math.max(wide - 0.6, NARROW), ROW - 1);
    if (wide > 24) {
      draw.save();
      draw.beginPath();
      draw.rect(x, y, wide - 3, ROW);
      draw.clip();
      draw.fillStyle = of('text');
      draw.fillText(box.name, x + 3, y + 12.5);
      draw.restore();
    }
  }
  canvas.dataset.painted = Number(canvas.dataset.painted ?? 0) + 1;
}

function boxAt(event) {
  const depth = Math.floor(event.offsetY / ROW);
  return zoomed && boxes.find((box) => {
    const { x, wide } = place(box);
    return box.depth === depth && isShown(box) && event.offsetX >= x && event.offsetX < x + wide;
  });
}

function onMove(event) {
  const box = boxAt(event);
  said.textContent = box ? `${box.name}: ${words(box)}` : shown.note;
}

// What is asked for: of a comparison the older one first.
function sides(page, asked) {
  const [one, two] = page.marked.slice(-2);
  if (against === 'before' && page.seconds)
    return [{ ...asked, since: -2 * page.seconds * 1e9, until: -page.seconds * 1e9 }, asked];
  if (against === 'marked' && two)
    return [one, two].map(({ since, until }) => ({ ...asked, since: Math.max(1, Math.floor(since)), until: Math.ceil(until) }));
  if (against === 'other')
    return [asked, { ...asked, pid: '', recording: 2 }];
  return [asked];
}

async function load(page, signal) {
  const asked = { of: of[0], pid: page.pid, ...page.window() };
  const answers = await Promise.all(sides(page, asked).map((side) => get('flame', side, signal))), answer = answers.at(-1);
  const before = key(zoomed);
  layOut(answers);
  zoomed = boxes.find((box) => key(box) === before) ?? boxes[0];
  shown = { note: !boxes[0].value ? answer.note || 'Nothing.' : `${compared ? words(boxes[0]) : of[2](answer.total)} in all` +
    (answers.some((each) => each.cut) ? ', and more that is not shown' : '') };
  said.textContent = shown.note;
  paint();
}

export const flame = {
  name: 'Flame graph',
  live: true,
  open(page, root) {
    zoomed = null;
    shown = { note: '' };
    said = element('span', { class: 'dim', id: 'said' });
    search = '';
    found = element('input', { type: 'search', placeholder: 'search names', oninput: () => { search = found.value.toLowerCase(); paint(); } });
    canvas = element('canvas', { id: 'flame', onpointermove: onMove, onclick: (event) => { zoomed = boxAt(event) ?? zoomed; paint(); } });
    const select = element('select', { id: 'of', onchange: () => { of = KINDS[select.selectedIndex]; page.refresh(); } },
      ...KINDS.map((kind) => element('option', { selected: kind === of }, kind[1])));
    const possible = AGAINST.filter(([key]) => key === '' || (key === 'before' && page.seconds) || (key === 'marked' && page.marked.length > 1) ||
      (key === 'other' && page.clock?.other));
    against = possible.some(([key]) => key === against) ? against : possible.at(-1)[0] === 'other' ? 'other' : '';
    const compare = element('select', { id: 'against', onchange: () => { against = possible[compare.selectedIndex][0]; zoomed = null; page.refresh(); } },
      ...possible.map(([key, title]) => element('option', { selected: key === against }, title)));
    root.replaceChildren(element('div', { class: 'tools' }, select, possible.length > 1 ? compare : '', found, said), canvas);
    new ResizeObserver(paint).observe(root);
  },
  repaint: paint,
  refresh(page, root, signal) {
    return load(page, signal);
  },
};
