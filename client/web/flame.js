// Flame graph: what the code paths of a process took, or hold. The widest are the most; a click zooms.
import { get } from './api.js';
import { element } from './dom.js';
import { bytes, count, duration, share } from './format.js';

const KINDS = [['gpu', 'GPU time', duration], ['waits', 'waits', duration], ['launches', 'launches', count],
  ['memory', 'memory held', bytes], ['leaks', 'leaks', bytes]];
const ROW = 18, NARROW = 0.5;

let of = KINDS[0], canvas, said, found, boxes = [], zoomed = null, search = '', height = 0, shown = null;

// The answer is a walk through the tree: depth, name, sum. A box starts where the one before it ends.
function layOut({ nodes, names, total }) {
  const at = [0], path = [];
  boxes = [{ name: 'all', value: total, start: 0, depth: 0, parent: null }];
  path[0] = boxes[0];
  for (let i = 0; i < nodes.length; i += 3) {
    const depth = nodes[i] + 1, value = nodes[i + 2], parent = path[depth - 1];
    if (parent.next === undefined)
      parent.next = parent.start;
    const box = { name: names[nodes[i + 1]], value, start: parent.next, depth, parent };
    parent.next += value;
    path[depth] = box;
    boxes.push(box);
  }
  height = (boxes.reduce((most, box) => Math.max(most, box.depth), at[0]) + 1) * ROW;
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
    let hash = 3;
    for (const character of box.name)
      hash = (hash * 31 + character.codePointAt(0)) % 1000;
    draw.fillStyle = hit ? of('mark') : `hsl(${10 + hash / 25} ${search ? 8 : 60}% ${dark ? 42 : 68}%)`;
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
  said.textContent = box ? `${box.name}: ${of[2](box.value)}, ${share(1e6 * box.value / boxes[0].value)} of all` : shown.note;
}

async function load(page, signal) {
  const answer = await get('flame', { of: of[0], pid: page.pid, ...page.window() }, signal);
  const before = key(zoomed);
  layOut(answer);
  zoomed = boxes.find((box) => key(box) === before) ?? boxes[0];
  shown = { note: answer.total ? `${of[2](answer.total)} in all${answer.cut ? ', and more that is not shown' : ''}` : answer.note || 'Nothing.' };
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
    root.replaceChildren(element('div', { class: 'tools' }, select, found, said), canvas);
    new ResizeObserver(paint).observe(root);
  },
  refresh(page, root, signal) {
    return load(page, signal);
  },
};
