// The page of a live network: what the server shows now, looked at again every few seconds.

import { ask } from "./door.js";

const EVERY = 5000; // milliseconds

async function look() {
  const response = await ask("now");
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  const found = new DOMParser().parseFromString(text, "text/html");
  document.title = found.title;
  document.head.querySelector("style")?.remove();
  document.head.append(found.head.querySelector("style"));
  document.body.replaceWith(found.body);
}

for (;;) {
  try { await look(); } catch (error) { document.body.textContent = error.message; }
  await new Promise((again) => setTimeout(again, EVERY));
}
