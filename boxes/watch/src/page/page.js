"use strict";
// Puts the parts of the page that have changed in their places. Without it the page is complete,
// and shows what was true when it was loaded.
const live = document.getElementById("live");
const say = (text) => { if (live.textContent !== text) live.textContent = text; };
const source = new EventSource("/stream" + window.location.search);
source.addEventListener("parts", (event) => {
  const parts = JSON.parse(event.data);
  for (const id of Object.keys(parts)) {
    const place = document.getElementById(id);
    if (place === null) {
      // A bundle appeared: its section is on the server.
      source.close();
      window.location.reload();
      return;
    }
    if (place.innerHTML !== parts[id]) place.innerHTML = parts[id];
  }
  say("Updated every second.");
});
source.addEventListener("error", () => {
  say(source.readyState === EventSource.CLOSED
    ? "Not updated: too many pages are open, or the service has ended. Load the page again."
    : "Not updated: the connection is interrupted.");
});
window.addEventListener("beforeunload", () => source.close());
