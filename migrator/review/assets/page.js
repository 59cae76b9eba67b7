"use strict";
// Everything that this script shows comes from the page's own attributes, and is put back as text, never as markup.
(() => {
  const root = document.documentElement;
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
  const one = (selector, inside = document) => inside.querySelector(selector);

  // ---- memory: a browser may forbid it, for files above all; then decisions last as long as the page is open
  const memory = (() => {
    try {
      const store = window.localStorage;
      store.setItem("mgmigrate", "1");
      return store;
    } catch {
      const kept = new Map();
      return { getItem: (name) => kept.get(name) ?? null, setItem: (name, value) => kept.set(name, value) };
    }
  })();

  function notice(text) {
    all(".notice").forEach((old) => old.remove());
    const box = document.createElement("p");
    box.className = "notice";
    box.setAttribute("role", "status");
    box.textContent = text;
    document.body.append(box);
    setTimeout(() => box.remove(), 2200);
  }

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      notice("Copied");
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      notice(done ? "Copied" : "The browser did not allow copying");
    }
  }

  // ---- programs and their fixes
  class Program {
    constructor(element) {
      this.element = element;
      this.fixes = all(".fix", element).map((fix) => ({
        element: fix,
        id: fix.dataset.fix,
        rule: fix.dataset.rule,
        takes: JSON.parse(fix.dataset.takes),
        dot: one(`.dot[href="#${fix.id}"]`),
        chosen: "",
      }));
      this.wraps = JSON.parse(element.dataset.wraps);
      this.wrapsTake = JSON.parse(element.dataset.wrapsTake);
      this.bar = one(".bar", element);
      if (!this.bar) return;
      this.bar.hidden = false;
      const kept = JSON.parse(memory.getItem(this.key) ?? "{}");
      for (const fix of this.fixes) {
        one(".choice", fix.element).hidden = false;
        if (["accept", "refuse"].includes(kept[fix.id])) fix.chosen = kept[fix.id];
        for (const button of all("[data-choose]", fix.element)) {
          button.addEventListener("click", () => this.choose(fix, fix.chosen === button.dataset.choose ? "" : button.dataset.choose));
        }
      }
      one("[data-copy-line]", this.bar).addEventListener("click", () => copy(this.command()));
      one("[data-save]", this.bar).addEventListener("click", () => this.save());
      this.show();
    }

    get key() {
      return `mgmigrate:${this.element.dataset.key}`;
    }

    choose(fix, what) {
      fix.chosen = what;
      memory.setItem(this.key, JSON.stringify(Object.fromEntries(this.fixes.filter((f) => f.chosen).map((f) => [f.id, f.chosen]))));
      this.show();
    }

    // The fixes that are left out: what was refused, and with it what depends on it.  Id → [cause, why].
    out() {
      const out = new Map();
      const refused = this.fixes.filter((fix) => fix.chosen === "refuse").sort((a, b) => b.takes.length - a.takes.length);
      for (const fix of refused) {
        if (out.has(fix.id)) continue; // it goes with one that more depends on
        out.set(fix.id, ["", ""]);
        for (const [id, why] of fix.takes) if (!out.has(id)) out.set(id, [fix.id, why]);
      }
      if (this.wraps.length && this.wraps.every((id) => out.has(id))) {
        for (const [id, why] of this.wrapsTake) if (!out.has(id)) out.set(id, [this.wraps[0], why]);
      }
      return out;
    }

    // Rules of which all fixes are left out, when nothing else is: then rule ids say the same as a file.
    wholeRules(out) {
      const rules = new Map();
      for (const fix of this.fixes) rules.set(fix.rule, (rules.get(fix.rule) ?? true) && out.has(fix.id));
      const gone = [...rules].filter(([, whole]) => whole).map(([rule]) => rule);
      const covered = this.fixes.filter((fix) => gone.includes(fix.rule)).length;
      return covered === out.size ? [gone, [...rules.keys()].filter((rule) => !gone.includes(rule))] : null;
    }

    selectionWords() {
      const out = this.out();
      if (!out.size) return "";
      const rules = this.wholeRules(out);
      if (!rules) return " --apply selection.json";
      const [gone, kept] = rules;
      if (!kept.length) return null;
      const shorter = kept.length < gone.length && !this.element.dataset.hasSelect;
      return shorter ? ` --select ${kept.join(",")}` : ` --ignore ${gone.join(",")}`;
    }

    command() {
      const words = this.selectionWords();
      return words === null ? "" : `${this.element.dataset.command}${words} --write`;
    }

    check() {
      const words = this.selectionWords();
      if (!words) return this.element.dataset.check;
      return `${this.element.dataset.command}${words} --output converted && ${this.element.dataset.checkChoice}`;
    }

    selection() {
      const out = this.out();
      const ids = (wanted) => this.fixes.filter((fix) => out.has(fix.id) === wanted).map((fix) => fix.id);
      return { version: 1, entry: this.element.dataset.entry, accept: ids(false), refuse: ids(true) };
    }

    save() {
      const text = JSON.stringify(this.selection(), null, 2) + "\n";
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
      link.download = "selection.json";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
      notice("selection.json: give it to convert --apply");
    }

    show() {
      const out = this.out();
      const oneProcess = this.wraps.length > 0 && this.wraps.every((id) => out.has(id));
      for (const fix of this.fixes) {
        const [cause, why] = out.get(fix.id) ?? ["", ""];
        const state = out.has(fix.id) ? "refuse" : fix.chosen === "accept" ? "accept" : "";
        fix.element.classList.toggle("out", out.has(fix.id));
        fix.dot?.classList.remove("accept", "refuse");
        if (state) fix.dot?.classList.add(state);
        for (const button of all("[data-choose]", fix.element)) button.setAttribute("aria-pressed", String(button.dataset.choose === state));
        const fallen = one(".fallen", fix.element);
        fallen.hidden = !cause;
        fallen.textContent = cause ? `Left out with ${cause}: ${why}.` : "";
        const breaks = one(".breaks", fix.element);
        if (breaks) breaks.hidden = !out.has(fix.id) || cause !== "" || oneProcess;
      }
      const accepted = this.fixes.filter((fix) => fix.chosen === "accept" && !out.has(fix.id)).length;
      const open = this.fixes.length - accepted - out.size;
      one(".accepted", this.bar).style.width = `${(100 * accepted) / this.fixes.length}%`;
      one(".refused", this.bar).style.width = `${(100 * out.size) / this.fixes.length}%`;
      const told = [`${accepted} accepted`, `${out.size} refused`];
      if (open) told.push(`${open} open, taken as accepted`);
      one(".tally", this.bar).textContent = told.join(" · ");
      const command = this.command();
      one("[data-line]", this.bar).textContent = command || "Nothing is left to apply";
      one("[data-copy-line]", this.bar).disabled = !command;
      one("[data-save]", this.bar).classList.toggle("wanted", command.includes(" --apply "));
      for (const [name, text] of [["apply", command || "# nothing is left to apply"], ["check", this.check()]]) {
        const line = one(`[data-${name}]`, this.element);
        if (!line) continue;
        const button = line.nextElementSibling;
        if (button.dataset.copy !== text) [line.textContent, button.dataset.copy] = [text, text];
      }
    }
  }
  const programs = all(".program").map((element) => new Program(element));

  // ---- moving about
  const items = all(".item");
  let current = null;

  function go(item, scroll = true) {
    if (!item) return;
    current?.classList.remove("current");
    current && one(`.dot[href="#${current.id}"]`)?.classList.remove("current");
    current = item;
    current.classList.add("current");
    if (item.id) one(`.dot[href="#${item.id}"]`)?.classList.add("current");
    item.focus({ preventScroll: true });
    if (scroll) item.scrollIntoView({ block: item.offsetHeight > innerHeight * 0.7 ? "start" : "center" });
  }

  // From where the reader is: the item that has been reached, or the first one below the upper edge.
  function step(by) {
    const place = current && isNear(current) ? items.indexOf(current) + by : nearest(by);
    go(items[Math.max(0, Math.min(place, items.length - 1))]);
  }

  function isNear(item) {
    const box = item.getBoundingClientRect();
    return box.bottom > -innerHeight && box.top < 2 * innerHeight;
  }

  function nearest(by) {
    const below = items.findIndex((item) => item.getBoundingClientRect().top > 8);
    if (below < 0) return items.length - 1;
    return by > 0 ? below : below - 1;
  }

  function decide(what) {
    const program = programs.find((p) => p.element.contains(current));
    const fix = program?.fixes.find((f) => f.element === current);
    if (!fix) return notice("Go to a change first, with j");
    program.choose(fix, what);
    if (what) step(1);
  }

  for (const item of items) item.addEventListener("focusin", () => current !== item && go(item, false));
  addEventListener("hashchange", () => go(items.find((item) => `#${item.id}` === location.hash), false));

  // ---- looks
  const themes = ["system", "light", "dark"];
  const views = ["unified", "split"];

  function setTheme(name) {
    if (name === "system") root.removeAttribute("data-theme");
    else root.dataset.theme = name;
    one("[data-theme-button]").textContent = `Theme: ${name}`;
    memory.setItem("mgmigrate:theme", name);
  }

  function setView(name) {
    const kept = current;
    root.dataset.view = name;
    for (const button of all(".segment button")) button.setAttribute("aria-pressed", String(button.dataset.view === name));
    memory.setItem("mgmigrate:view", name);
    if (kept) kept.scrollIntoView({ block: "start" });
  }

  const next = (names, name) => names[(names.indexOf(name) + 1) % names.length];
  one(".tools").hidden = false;
  one("[data-theme-button]").addEventListener("click", () => setTheme(next(themes, root.dataset.theme ?? "system")));
  for (const button of all(".segment button")) button.addEventListener("click", () => setView(button.dataset.view));
  const help = one("#help");
  one("[data-help]").addEventListener("click", () => help.showModal());
  for (const button of all("[data-copy]")) button.addEventListener("click", () => copy(button.dataset.copy));
  if (themes.includes(memory.getItem("mgmigrate:theme"))) setTheme(memory.getItem("mgmigrate:theme"));
  if (views.includes(memory.getItem("mgmigrate:view"))) setView(memory.getItem("mgmigrate:view"));

  // ---- keys
  const programHere = () => programs.find((p) => p.element.contains(current)) ?? programs.find((p) => p.bar);
  const keys = {
    j: () => step(1),
    k: () => step(-1),
    a: () => decide("accept"),
    r: () => decide("refuse"),
    u: () => decide(""),
    s: () => setView(next(views, root.dataset.view)),
    t: () => setTheme(next(themes, root.dataset.theme ?? "system")),
    c: () => programHere()?.command() && copy(programHere().command()),
    e: () => programHere()?.bar && programHere().save(),
    "?": () => (help.open ? help.close() : help.showModal()),
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (help.open && event.key !== "?") return;
    const action = keys[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
  if (location.hash) go(items.find((item) => `#${item.id}` === location.hash), false);
})();
