// Who may ask. The address that was printed is exchanged, once, for a word that every request carries in a header. A tab
// keeps it for its own origin, port included; a cookie would go to every server on this machine.

const HEADER = "veilnet-page";
const KEPT = "veilnet";
const ONCE = "#start=";

async function admitted() {
  if (location.hash.startsWith(ONCE)) {
    const once = location.hash.slice(ONCE.length);
    history.replaceState(null, "", location.pathname);
    const response = await fetch("start", { method: "POST", headers: { [HEADER]: once } });
    if (response.ok) sessionStorage.setItem(KEPT, await response.text());
  }
  return sessionStorage.getItem(KEPT) ?? "";
}

const word = admitted();

export async function ask(address, options = {}) {
  return fetch(address, { ...options, headers: { ...options.headers, [HEADER]: await word } });
}
