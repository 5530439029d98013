// Small helpers to build the page.

export const find = (id) => document.getElementById(id);

/** An element with attributes and children; text is inserted as text, never as markup. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== false && value != null) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 4 });

/** A value for display. */
export function shown(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return plain.format(value);
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

export function toast(text, kind = "") {
  const element = make("div", { class: `toast ${kind}` }, text);
  find("toasts").append(element);
  setTimeout(() => element.classList.add("gone"), 5000);
  setTimeout(() => element.remove(), 5600);
}
