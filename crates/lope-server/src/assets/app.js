"use strict";
// Live updates, copying, relative times and keys. Everything can be read without it.
(() => {
  const $ = (selector, from = document) => from.querySelector(selector);
  const $$ = (selector, from = document) => [...from.querySelectorAll(selector)];

  const lasted = (seconds) => {
    const [minutes, hours, days] = [60, 3600, 86400].map((unit) => Math.floor(seconds / unit));
    if (minutes < 1) return `${seconds} s`;
    if (hours < 1) return `${minutes} min`;
    return days < 1 ? `${hours} h ${minutes % 60} min` : `${days} d ${hours % 24} h`;
  };
  const times = () => $$("time[data-ago], time[data-ahead]").forEach((time) => {
    const then = new Date(time.dateTime);
    const seconds = Math.max(0, Math.round(("ago" in time.dataset ? 1 : -1) * (new Date() - then) / 1000));
    const shown = "ago" in time.dataset ? `${lasted(seconds)} ago` : seconds > 0 ? `in ${lasted(seconds)}` : "now";
    if (time.textContent !== shown) time.textContent = shown;
    time.title = `${time.dateTime} · ${then.toLocaleString()}`;
  });

  // On a phone the navigation is a bar that may be longer than the screen.
  const here = $("nav.side a[aria-current]");
  if (here && getComputedStyle(here.parentElement).flexDirection === "row") here.parentElement.scrollLeft = here.offsetLeft - 16;

  // Whether the page is live; said again when the part that shows it is made anew.
  let liveness = "";
  const say = (text) => { liveness = text; const mark = $("#live"); if (mark) mark.textContent = text; };

  // A browser gives a server six connections for all of its tabs: a page that nobody sees holds none,
  // and goes on behind the last event that it had when it is seen again.
  const streams = new Set();
  const stream = (address, begin) => {
    let source = null, last = "";
    const it = {
      open() {
        if (source || document.hidden) return;
        const url = new URL(address, location.href);
        if (last && url.searchParams.has("after")) url.searchParams.set("after", last);
        source = new EventSource(url);
        begin(source, (name, told) => source.addEventListener(name, (event) => { last = event.lastEventId || last; told(event); }), it);
      },
      close() { source?.close(); source = null; },
      end() { it.close(); streams.delete(it); },
    };
    streams.add(it);
    it.open();
    return it;
  };
  const away = () => { streams.forEach((it) => it.close()); };
  const back = () => { if (streams.size === 0) return; streams.forEach((it) => it.open()); if (!held()) soon(); };
  document.addEventListener("visibilitychange", () => { if (document.hidden) away(); else back(); });
  addEventListener("pagehide", away);
  addEventListener("pageshow", (event) => { if (event.persisted) back(); });

  // Where a person is: what they typed, what they have open, what they stand on.
  const isTyped = (field) => field === document.activeElement || (field.type === "checkbox" ? field.checked !== field.defaultChecked : field.value !== field.defaultValue);
  const isMarked = (part) => { const marks = getSelection(); return !marks.isCollapsed && (part.contains(marks.anchorNode) || part.contains(marks.focusNode)); };
  let brush = null;
  const inUse = (part) => isMarked(part) || brush && part.contains(brush.area) || $("details.menu[open]", part) || part.contains(document.activeElement) && document.activeElement.matches("select") || $$("input, textarea", part).some(isTyped);
  const alike = (one) => (other) => other.getAttribute("href") === one.getAttribute("href") && other.textContent === one.textContent && other.closest("form")?.action === one.closest("form")?.action;
  const twin = (element, part, made) => $$(element.tagName, made).filter(alike(element))[$$(element.tagName, part).filter(alike(element)).indexOf(element)];
  let skipped = false;
  const replace = (part, fresh) => {
    const before = new Map($$("[data-cell]", part).map((cell) => [cell.dataset.cell, cell.textContent]));
    const made = document.importNode(fresh, true);
    const open = $$("details[open] > summary", part).map((summary) => twin(summary, part, made));
    open.forEach((summary) => { if (summary) summary.parentElement.open = true; });
    const focus = part.contains(document.activeElement) && twin(document.activeElement, part, made);
    part.replaceWith(made);
    if (focus) focus.focus({ preventScroll: true });
    $$("[data-cell]", made).forEach((cell) => { if (before.has(cell.dataset.cell) && before.get(cell.dataset.cell) !== cell.textContent) cell.classList.add("moved"); });
  };

  // A token that is not known any more: whoever asks is led to where one is asked for.
  const isShut = (answer) => {
    const shut = answer.redirected && new URL(answer.url).pathname.endsWith("/login");
    if (shut) { streams.forEach((it) => it.end()); say("logged out: load the page again to log in"); }
    return shut;
  };

  // Replace the parts of the page that changed; what a person has open or is typing in stays.
  let busy = false, again = false;
  const refresh = async () => {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      if (!answer.ok || isShut(answer)) return;
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      skipped = false;
      for (const part of $$("[data-part]")) {
        const fresh = $(`[data-part="${part.dataset.part}"]`, next);
        if (!fresh || (part.dataset.keep && part.dataset.keep === fresh.dataset.keep) || fresh.innerHTML === part.innerHTML) continue;
        if (inUse(part)) skipped = true; else replace(part, fresh);
      }
      say(liveness);
      tails();
      times();
      zoned();
      sift();
      mark();
    } catch {
      again = true; // The server is away: what changed meanwhile is asked for again.
    } finally {
      busy = false;
      if (again) { again = false; setTimeout(refresh, 1000); }
    }
  };
  // What was left alone is made anew when it is closed, or no text of it is marked any more.
  document.addEventListener("selectionchange", () => { if (skipped && getSelection().isCollapsed) soon(); });
  document.addEventListener("toggle", (event) => { if (!event.target.open && skipped) soon(); }, true);

  // A log that is written while one looks. Whoever reads further up is not dragged along.
  const followed = new Map();
  const tails = () => {
    followed.forEach((it, log) => { if (!log.isConnected) { it.end(); followed.delete(log); } });
    $$("pre[data-log]").forEach((log) => {
      if (followed.has(log)) return;
      const end = () => { log.scrollTop = log.scrollHeight; };
      followed.set(log, stream(log.dataset.log, (source, on, it) => {
        on("text", (event) => {
          const follows = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
          if (log.whole === undefined) log.append(JSON.parse(event.data).text);
          else { log.whole += JSON.parse(event.data).text; sift(); }
          if (follows) end();
        });
        on("end", () => { it.end(); soon(); });
      }));
      end();
    });
  };
  let planned = 0;
  const soon = () => { clearTimeout(planned); planned = setTimeout(refresh, 150); };

  // Only a list that can be held still is.
  const hold = $("#hold");
  const held = () => hold && localStorage.getItem("lope.hold") === "yes";
  const live = $("[data-events]");
  if (live) {
    // What has news, each counted once however often it moves.
    const waiting = new Set();
    const fresh = $("#fresh");
    const heard = (event) => {
      if (!held()) return soon();
      waiting.add(event?.data ? JSON.parse(event.data)?.run_id : "");
      if (fresh) { fresh.textContent = `${waiting.size} new`; fresh.classList.add("some"); }
    };
    stream(live.dataset.events, (source, on, it) => {
      let cut = false;
      source.onopen = () => { say("live"); if (cut) { cut = false; heard(); } };
      // A browser may give up, or wait long; a server that answers again is listened to at once.
      const retry = () => setTimeout(async () => {
        if (source.readyState === EventSource.OPEN || !streams.has(it) || document.hidden) return;
        try {
          const answer = await fetch(location.href, { headers: { accept: "text/html" } });
          if (isShut(answer)) return;
          if (answer.ok) { it.close(); it.open(); return heard(); }
        } catch { /* still away */ }
        retry();
      }, 2000);
      source.onerror = () => { if (!cut) { cut = true; say("reconnecting…"); retry(); } };
      for (const name of ["row", "run", "change", "task", "schedule", "mailbox", "removed", "reset"]) on(name, heard);
      on("end", () => { it.end(); say("ended"); soon(); });
    });
    if (hold) {
      const show = () => { hold.textContent = held() ? "Follow" : "Hold still"; };
      hold.hidden = false;
      hold.addEventListener("click", () => { localStorage.setItem("lope.hold", held() ? "no" : "yes"); show(); if (!held()) { waiting.clear(); fresh?.classList.remove("some"); refresh(); } });
      show();
    }
    fresh?.addEventListener("click", () => { waiting.clear(); fresh.classList.remove("some"); refresh(); });
  }
  // A page without events of its own looks again from time to time.
  const every = Number($("[data-every]")?.dataset.every);
  if (every) setInterval(() => { if (!document.hidden) refresh(); }, every * 1000);

  // Exact times in UTC, or as the clock on the wall shows them.
  const zones = $$(".zone");
  const local = () => localStorage.getItem("lope.zone") === "local";
  const pad = (number, width = 2) => String(number).padStart(width, "0");
  const zoned = () => $$("time.exact").forEach((time) => {
    const at = new Date(time.dateTime);
    const wall = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}.${pad(at.getMilliseconds(), 3)}`;
    time.title = `${time.dateTime} · ${at.toLocaleString()}`;
    time.textContent = local() ? wall : time.dateTime.replace("T", " ");
  });
  const clocks = () => { zones.forEach((zone) => { zone.hidden = false; zone.textContent = local() ? "Local time" : "UTC"; }); zoned(); };
  zones.forEach((zone) => zone.addEventListener("click", () => { localStorage.setItem("lope.zone", local() ? "utc" : "local"); clocks(); }));
  clocks();

  // Only the lines of logs that have what is typed.
  const filter = $("#filter");
  const sift = () => $$("[data-part=logs] pre").forEach((log) => {
    if (!filter || !filter.value && log.whole === undefined) return;
    log.whole ??= log.textContent;
    log.textContent = filter.value ? log.whole.split("\n").filter((line) => line.includes(filter.value)).join("\n") : log.whole;
    if (!filter.value) delete log.whole;
  });
  if (filter) {
    filter.hidden = false;
    filter.addEventListener("input", sift);
    sift(); // A browser may remember what was typed.
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const text = button.dataset.copy;
    const done = () => { button.dataset.word ??= button.textContent; button.textContent = "copied"; clearTimeout(button.told); button.told = setTimeout(() => { button.textContent = button.dataset.word; }, 1200); };
    if (navigator.clipboard && window.isSecureContext) { navigator.clipboard.writeText(text).then(done); return; }
    const area = document.createElement("textarea");
    area.value = text; document.body.append(area); area.select(); document.execCommand("copy"); area.remove(); done();
  });
  document.addEventListener("submit", (event) => {
    const ask = event.target.dataset.ask;
    if (ask && !window.confirm(ask)) event.preventDefault();
  });

  // What is asked of this page, with another value for one name.
  const asked = (name, value) => {
    const url = new URL(location.href);
    if (value) url.searchParams.set(name, value); else url.searchParams.delete(name);
    location.assign(url);
  };

  // A stretch of the timeline that is drawn over is what it shows next.
  const across = (x) => Math.min(1, Math.max(0, (x - brush.box.left) / brush.box.width));
  document.addEventListener("pointerdown", (event) => {
    const area = event.target.closest(".timeline svg");
    if (!area || event.button !== 0 || event.pointerType === "touch") return;
    event.preventDefault();
    brush = { area, line: area.closest(".timeline"), box: area.getBoundingClientRect(), from: event.clientX };
  });
  document.addEventListener("pointermove", (event) => {
    if (!brush) return;
    brush.mark ??= brush.line.appendChild(Object.assign(document.createElement("div"), { className: "brush" }));
    const [left, right] = [across(brush.from), across(event.clientX)].sort((one, other) => one - other);
    const start = brush.box.left - brush.line.getBoundingClientRect().left;
    brush.mark.style.left = `${start + left * brush.box.width}px`;
    brush.mark.style.width = `${(right - left) * brush.box.width}px`;
  });
  document.addEventListener("pointerup", (event) => {
    if (!brush) return;
    const [left, right] = [across(brush.from), across(event.clientX)].sort((one, other) => one - other);
    const [from, to] = [Number(brush.line.dataset.from), Number(brush.line.dataset.to)];
    const wide = (right - left) * brush.box.width > 4;
    brush.mark?.remove();
    brush = null;
    const at = (share) => Math.round(from + share * (to - from));
    if (wide) asked("zoom", `${at(left)}-${Math.max(at(left) + 1, at(right))}`);
  });

  // A block of a graph is folded and opened by a click on its name.
  document.addEventListener("click", (event) => {
    const graph = event.target.closest("[data-fold]");
    const block = event.target.closest("[data-step]");
    if (!graph || !block) return;
    const folded = new Set(graph.dataset.fold.split(",").filter(Boolean));
    if (!folded.delete(block.dataset.step)) folded.add(block.dataset.step);
    asked("fold", [...folded].join(","));
  });

  const KEYS = [["/", "search"], ["j k", "next and previous row"], ["Enter", "open"], ["1 – 5", "tabs of a run"], ["g r", "runs"], ["g w", "workflows"], ["g s", "schedules"], ["g q", "queues"], ["g u", "runners"], ["g m", "mailboxes"], ["g p", "spaces"], ["g a", "agents"], ["?", "these keys"]];
  const help = (open) => {
    let box = $("dialog.keys");
    if (!box) {
      box = document.createElement("dialog");
      box.className = "keys";
      const list = document.createElement("dl");
      list.className = "facts";
      for (const [key, word] of KEYS) { const dt = document.createElement("dt"), dd = document.createElement("dd"); dt.textContent = key; dd.textContent = word; list.append(dt, dd); }
      box.append(list);
      document.body.append(box);
    }
    if (open && !box.open) box.showModal(); else box.close();
  };
  let goes = false;
  const rows = () => $$("tbody tr").filter((row) => $("a", row));
  const link = (row) => $("a", row).getAttribute("href");
  // The row that a person stands on, by where it leads: it keeps its mark when the list moves.
  let stands = null;
  const mark = () => { if (stands !== null) rows().forEach((row) => row.classList.toggle("picked", link(row) === stands)); };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
    const search = $("input[type=search]:not([hidden])");
    if (event.key === "/" && search) { event.preventDefault(); search.focus(); search.select(); }
    if (event.key === "j" || event.key === "k") {
      const all = rows();
      if (!all.length) return;
      const at = all.findIndex((row) => link(row) === stands) + (event.key === "j" ? 1 : -1);
      const row = all[Math.min(all.length - 1, Math.max(0, at))];
      stands = link(row);
      mark();
      $("a", row).focus();
    }
    if (event.key === "Escape" || event.key === "?") help(event.key === "?");
    if (goes) {
      goes = false;
      const place = { r: 0, w: 1, s: 2, q: 3, u: 4, m: 5, p: 6, a: 7 }[event.key];
      if (place !== undefined) $$("nav.side a.to")[place]?.click();
    } else if (event.key === "g") { goes = true; setTimeout(() => { goes = false; }, 1500); }
    const tab = Number(event.key);
    if (tab >= 1) $$("nav.tabs a")[tab - 1]?.click();
  });
  tails();
  times();
  setInterval(times, 15000);
})();
