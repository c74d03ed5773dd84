// The flame graph in a browser: zoom by click, search by regular expression, details of what the
// mouse is on. What is drawn without it is the whole graph, 1200 pixels wide.
// A frame is a <g data-x data-n data-c> (begin and length in nanoseconds, how often) with a <title>
// whose first line is its name. State is in the address: #zoom=INDEX&search=TEXT.
(function () {
  'use strict';
  var SVG = 'http://www.w3.org/2000/svg', HTML = 'http://www.w3.org/1999/xhtml';
  var MARGIN = 8, PAD = 4, CHAR = 6.63, NARROW = 0.1, HINT;
  var root = document.documentElement, box = root.getElementById('frames');
  var head = root.getElementById('head'), details = root.getElementById('details');
  var found = root.getElementById('found'), total, zoomed = 0, pattern = '', input, reset, width = 0;

  var frames = Array.prototype.map.call(box.children, function (g) {
    var lines = g.firstElementChild.textContent.split('\n'), rect = g.querySelector('rect');
    return {
      g: g, rect: rect, text: g.querySelector('text'), name: lines[0], rest: lines.slice(1).join(' '),
      x: +g.getAttribute('data-x'), n: +g.getAttribute('data-n'), y: +rect.getAttribute('y')
    };
  });
  total = frames.length ? frames[0].n : 0;
  HINT = details.textContent;

  // As many code points as there is room for; wide ones count twice.
  function cut(name, room) {
    var left = Math.floor(room / CHAR), out = '', used = 0, points = Array.from(name), i, wide;
    for (i = 0; i < points.length; i++) {
      wide = points[i].codePointAt(0) >= 0x1100 ? 2 : 1;
      if (used + wide > left - (i < points.length - 1 ? 1 : 0))
        return used < 2 ? '' : out + '\u2026';
      used += wide;
      out += points[i];
    }
    return out;
  }

  function draw() {
    var at = frames[zoomed], scale;
    width = Math.max(root.clientWidth || window.innerWidth || 1200, 400);
    scale = (width - 2 * MARGIN) / (at.n || 1);
    frames.forEach(function (f) {
      var above = f.y < at.y && f.x <= at.x && f.x + f.n >= at.x + at.n;
      var inside = f.y >= at.y && f.x >= at.x && f.x + f.n <= at.x + at.n;
      var w = above ? width - 2 * MARGIN : f.n * scale;
      var x = MARGIN + (above ? 0 : (f.x - at.x) * scale);
      var shown = (above || inside) && w >= NARROW;
      f.g.classList.toggle('hidden', !shown);
      f.g.classList.toggle('parent', shown && above);
      if (!shown)
        return;
      f.rect.setAttribute('x', x.toFixed(2));
      f.rect.setAttribute('width', Math.max(w - (w > 3 ? 0.6 : 0), 0.1).toFixed(2));
      if (!f.text)
        f.text = f.g.appendChild(document.createElementNS(SVG, 'text'));
      f.text.setAttribute('x', (x + PAD).toFixed(2));
      f.text.setAttribute('y', f.y + 12.5);
      f.text.textContent = cut(f.name, w - 2 * PAD);
    });
    root.querySelectorAll('.wide').forEach(function (e) {
      e.setAttribute(e.tagName === 'line' ? 'x2' : 'width', width);
    });
    if (input)
      input.parentNode.parentNode.setAttribute('x', width - MARGIN - 330);
    found.setAttribute('x', width - MARGIN);
    if (reset)
      reset.style.visibility = zoomed || pattern ? 'visible' : 'hidden';
  }

  // The share of the whole whose stack has a frame that matches: each moment counts once.
  function search() {
    var expression = null, covered = 0, end = -1, wrong = false, any = false;
    try {
      expression = pattern ? new RegExp(pattern, 'i') : null;
    } catch (error) {
      wrong = true;
    }
    frames.filter(function (f) {
      var match = expression !== null && expression.test(f.name);
      f.g.classList.toggle('found', match);
      return match;
    }).sort(function (a, b) { return a.x - b.x || b.n - a.n; }).forEach(function (f) {
      any = true;
      covered += Math.max(0, f.x + f.n - Math.max(f.x, end));
      end = Math.max(end, f.x + f.n);
    });
    box.classList.toggle('searched', any);
    found.textContent = wrong ? 'not a regular expression' : !expression ? '' :
      any ? 'found in ' + percent(covered) + ' of the time' : 'not found';
    if (input) {
      input.classList.toggle('wrong', wrong);
      if (input.value !== pattern)
        input.value = pattern;
    }
  }

  function percent(n) {
    return (total ? 100 * n / total : 0).toFixed(2) + '\u00a0%';
  }

  function tell(f) {
    details.textContent = f ? cut(f.name, (width - 2 * MARGIN) * 0.9 - f.rest.length * CHAR) + '  ' + f.rest : HINT;
    details.classList.toggle('faint', !f);
  }

  function remember() {
    var parts = [];
    if (zoomed)
      parts.push('zoom=' + zoomed);
    if (pattern)
      parts.push('search=' + encodeURIComponent(pattern));
    try {
      if (location.hash.slice(1) !== parts.join('&'))
        history.replaceState(null, '', '#' + parts.join('&'));
    } catch (error) {
      // Not allowed everywhere; then the address stays as it is.
    }
  }

  function show(zoom, text) {
    zoomed = zoom > 0 && zoom < frames.length ? zoom : 0;
    pattern = text;
    search();
    draw();
    remember();
  }

  function recall() {
    var zoom = /[#&]zoom=(\d+)/.exec(location.hash), text = /[#&]search=([^&]*)/.exec(location.hash);
    var plain = '';
    try {
      plain = text ? decodeURIComponent(text[1]) : '';
    } catch (error) {
      plain = '';
    }
    show(zoom ? +zoom[1] : 0, plain);
  }

  function element(name, parent) {
    return parent.appendChild(document.createElementNS(HTML, name));
  }

  function make_input() {
    var foreign = head.appendChild(document.createElementNS(SVG, 'foreignObject')), bar;
    foreign.setAttribute('y', 10);
    foreign.setAttribute('width', 330);
    foreign.setAttribute('height', 36);
    bar = element('div', foreign);
    bar.id = 'search';
    reset = element('button', bar);
    reset.textContent = 'Reset';
    reset.addEventListener('click', function () { show(0, ''); });
    input = element('input', bar);
    input.type = 'text';
    input.placeholder = 'Search (regular expression)';
    input.addEventListener('input', function () { show(zoomed, input.value); });
  }

  function frame_of(event) {
    var g = event.target.closest ? event.target.closest('#frames > g') : null;
    return g ? Array.prototype.indexOf.call(box.children, g) : -1;
  }

  if (!frames.length)
    return;
  make_input();
  root.setAttribute('width', '100%');
  root.removeAttribute('viewBox');
  box.addEventListener('click', function (event) {
    var i = frame_of(event);
    if (i >= 0)
      show(i, pattern);
  });
  box.addEventListener('mouseover', function (event) {
    var i = frame_of(event);
    tell(i >= 0 ? frames[i] : null);
  });
  box.addEventListener('mouseleave', function () { tell(null); });
  window.addEventListener('keydown', function (event) {
    if (event.key === 'Escape') {
      input.blur();
      show(0, '');
    } else if (event.key === '/' && document.activeElement !== input) {
      event.preventDefault();
      input.focus();
    }
  });
  window.addEventListener('resize', draw);
  window.addEventListener('scroll', function () {
    head.setAttribute('transform', 'translate(0,' + window.scrollY + ')');
  });
  window.addEventListener('hashchange', recall);
  recall();
}());
