"use strict";
// Live updates, copying, relative times and keys. Everything can be read without it.
(() => {
  const $ = (selector, from = document) => from.querySelector(selector);
  const $$ = (selector, from = document) => [...from.querySelectorAll(selector)];

  const ago = (then, now) => {
    const seconds = Math.max(0, Math.round((now - then) / 1000));
    const steps = [[60, 1, "s"], [3600, 60, "min"], [86400, 3600, "h"], [Infinity, 86400, "d"]];
    const [, unit, word] = steps.find(([below]) => seconds < below);
    return `${Math.floor(seconds / unit)} ${word} ago`;
  };
  const times = () => $$("time[data-ago]").forEach((time) => {
    const then = new Date(time.dateTime);
    time.textContent = ago(then, new Date());
    time.title = `${time.dateTime} · ${then.toLocaleString()}`;
  });

  // On a phone the navigation is a bar that may be longer than the screen.
  const here = $("nav.side a[aria-current]");
  if (here && getComputedStyle(here.parentElement).flexDirection === "row") here.parentElement.scrollLeft = here.offsetLeft - 16;

  // Whether the page is live; said again when the part that shows it is made anew.
  let liveness = "";
  const say = (text) => { liveness = text; const mark = $("#live"); if (mark) mark.textContent = text; };

  // Replace the parts of the page that changed; what a person has open or is typing in stays.
  let busy = false, again = false;
  const refresh = async () => {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      if (!answer.ok) return;
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of $$("[data-part]")) {
        const fresh = $(`[data-part="${part.dataset.part}"]`, next);
        if (!fresh || (part.dataset.keep && part.dataset.keep === fresh.dataset.keep) || fresh.innerHTML === part.innerHTML || part.contains(document.activeElement) && $("input:focus, textarea:focus, details[open]", part)) continue;
        const before = new Map($$("[data-cell]", part).map((cell) => [cell.dataset.cell, cell.textContent]));
        const made = document.importNode(fresh, true);
        part.replaceWith(made);
        $$("[data-cell]", made).forEach((cell) => { if (before.has(cell.dataset.cell) && before.get(cell.dataset.cell) !== cell.textContent) cell.classList.add("moved"); });
      }
      say(liveness);
      tails();
      times();
      zoned();
    } catch {
      again = true; // The server is away: what changed meanwhile is asked for again.
    } finally {
      busy = false;
      if (again) { again = false; setTimeout(refresh, 1000); }
    }
  };
  // A log that is written while one looks. Whoever reads further up is not dragged along.
  const tails = () => $$("pre[data-log]:not([data-followed])").forEach((log) => {
    log.dataset.followed = "yes";
    const source = new EventSource(log.dataset.log);
    const end = () => { log.scrollTop = log.scrollHeight; };
    source.addEventListener("text", (event) => {
      if (!log.isConnected) return source.close();
      const follows = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
      log.append(JSON.parse(event.data).text);
      if (follows) end();
    });
    source.addEventListener("end", () => { source.close(); soon(); });
    addEventListener("pagehide", () => source.close());
    end();
  });
  let planned = 0;
  const soon = () => { clearTimeout(planned); planned = setTimeout(refresh, 150); };

  const live = $("[data-events]");
  if (live) {
    let waiting = 0;
    const held = () => localStorage.getItem("lope.hold") === "yes";
    const fresh = $("#fresh");
    const heard = () => {
      if (!held()) return soon();
      waiting += 1;
      if (fresh) { fresh.textContent = `${waiting} new`; fresh.classList.add("some"); }
    };
    const listen = () => {
      const source = new EventSource(live.dataset.events);
      let cut = false, ended = false;
      source.onopen = () => { say("live"); if (cut) { cut = false; heard(); } };
      // A browser may give up, or wait long; a server that answers again is listened to at once.
      const retry = () => setTimeout(async () => {
        if (source.readyState === EventSource.OPEN || ended) return;
        try {
          const answer = await fetch(location.href, { headers: { accept: "text/html" } });
          if (answer.ok) { source.close(); listen(); return heard(); }
        } catch { /* still away */ }
        retry();
      }, 2000);
      source.onerror = () => { if (!cut) { cut = true; say("reconnecting…"); retry(); } };
      for (const name of ["row", "run", "change", "task", "schedule", "mailbox", "removed", "reset"]) source.addEventListener(name, heard);
      source.addEventListener("end", () => { ended = true; source.close(); say("ended"); soon(); });
      addEventListener("pagehide", () => source.close());
    };
    listen();
    const hold = $("#hold");
    if (hold) {
      const show = () => { hold.textContent = held() ? "Follow" : "Hold still"; };
      hold.hidden = false;
      hold.addEventListener("click", () => { localStorage.setItem("lope.hold", held() ? "no" : "yes"); show(); if (!held()) { waiting = 0; fresh?.classList.remove("some"); refresh(); } });
      show();
    }
    fresh?.addEventListener("click", () => { waiting = 0; fresh.classList.remove("some"); refresh(); });
  }

  // Exact times in UTC, or as the clock on the wall shows them.
  const zone = $("#zone");
  const local = () => localStorage.getItem("lope.zone") === "local";
  const pad = (number, width = 2) => String(number).padStart(width, "0");
  const zoned = () => $$("time.exact").forEach((time) => {
    const at = new Date(time.dateTime);
    const wall = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}.${pad(at.getMilliseconds(), 3)}`;
    time.title = `${time.dateTime} · ${at.toLocaleString()}`;
    time.textContent = local() ? wall : time.dateTime.replace("T", " ").replace("Z", "");
  });
  if (zone) {
    const show = () => { zone.textContent = local() ? "Local time" : "UTC"; zoned(); };
    zone.hidden = false;
    zone.addEventListener("click", () => { localStorage.setItem("lope.zone", local() ? "utc" : "local"); show(); });
    show();
  }

  // Only the lines of logs that have what is typed.
  const filter = $("#filter");
  if (filter) {
    filter.hidden = false;
    filter.addEventListener("input", () => $$("[data-part=logs] pre").forEach((log) => {
      log.dataset.all ??= log.textContent;
      const lines = log.dataset.all.split("\n");
      log.textContent = lines.filter((line) => line.includes(filter.value)).join("\n");
    }));
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const text = button.dataset.copy;
    const done = () => { const was = button.textContent; button.textContent = "copied"; setTimeout(() => { button.textContent = was; }, 1200); };
    if (navigator.clipboard && window.isSecureContext) { navigator.clipboard.writeText(text).then(done); return; }
    const area = document.createElement("textarea");
    area.value = text; document.body.append(area); area.select(); document.execCommand("copy"); area.remove(); done();
  });
  document.addEventListener("submit", (event) => {
    const ask = event.target.dataset.ask;
    if (ask && !window.confirm(ask)) event.preventDefault();
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
  let at = -1;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
    const search = $("input[type=search]:not([hidden])");
    if (event.key === "/" && search) { event.preventDefault(); search.focus(); }
    if (event.key === "j" || event.key === "k") {
      const all = rows();
      if (!all.length) return;
      at = Math.min(all.length - 1, Math.max(0, at + (event.key === "j" ? 1 : -1)));
      all.forEach((row, index) => row.classList.toggle("picked", index === at));
      $("a", all[at]).focus();
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
