// Elements. What the daemon says becomes text, never markup.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on'))
      made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false)
      made.setAttribute(name, value === true ? '' : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// columns: [title, function of the row that gives text or an element, 'number' or 'text']
export function table(rows, columns, choose) {
  const head = columns.map(([title, , kind]) => element('th', { class: kind }, title));
  const body = rows.map((row) => {
    const cells = columns.map(([, value, kind]) => {
      const shown = value(row);
      return element('td', { class: kind, title: kind === 'text' && typeof shown === 'string' ? shown : null }, shown);
    });
    return element('tr', choose ? { class: 'choice', onclick: () => choose(row) } : {}, ...cells);
  });
  return element('div', { class: 'scroll' }, element('table', {},
    element('thead', {}, element('tr', {}, ...head)), element('tbody', {}, ...body)));
}

export function stack(frames, most = 12) {
  if (!frames || !frames.length)
    return null;
  const more = frames.length - most;
  return element('ol', { class: 'stack', start: 0 }, ...frames.slice(0, most).map((frame) => element('li', {}, frame)),
    more > 0 ? element('li', {}, `and ${more} more`) : null);
}

export function section(title, ...children) {
  return element('section', {}, element('h2', {}, title), ...children);
}
