/* Keeps the page alive: the same page is fetched again, and the parts that differ are exchanged. */
"use strict";

const INTERVAL_MS = 2500, PENDING_MS = 150, TIMEOUT_MS = 4000;
let paused = false, timer = 0, asking = 0;

function parse(text) {
	return new DOMParser().parseFromString(text, "text/html");
}

async function get(url) {
	const response = await fetch(url, { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
	const text = await response.text();
	if (!response.ok && !text.includes('id="answer"'))
		throw new Error(text || response.statusText);
	return parse(text);
}

/* A part in which somebody is reading with the keyboard or has selected text is left alone until the next time. */
function busy(part) {
	const selection = getSelection();
	return part.contains(document.activeElement) ||
		(selection && !selection.isCollapsed && part.contains(selection.anchorNode));
}

/* Parts come and go (kubedns and the nanny may not be there): the order is the new page's. */
function exchange(next) {
	for (const part of document.querySelectorAll("[data-part]"))
		if (!next.getElementById(part.id) && !busy(part))
			part.remove();
	let previous = null;
	for (const part of next.querySelectorAll("[data-part]")) {
		const old = document.getElementById(part.id);
		const fresh = document.importNode(part, true);
		if (old === null) {
			if (previous)
				previous.after(fresh);
			previous = previous ? fresh : null;
			continue;
		}
		if (part.id === "verdict")
			verdict(old, fresh);
		else if (old.outerHTML !== part.outerHTML && !busy(old))
			old.replaceWith(fresh);
		previous = document.getElementById(part.id);
	}
}

/* The heading is a live region: it is touched only when its words change, so that it is read out only then. */
function verdict(old, fresh) {
	old.className = fresh.className;
	const sentence = old.querySelector("h1"), said = fresh.querySelector("h1");
	if (sentence.textContent !== said.textContent) {
		sentence.textContent = said.textContent;
		document.title = said.textContent + " - cluster DNS";
		const level = fresh.classList[1], icon = document.querySelector("link[rel=icon]");
		icon.href = "/icon.svg?" + level;
	}
	old.querySelector(".mark").replaceWith(fresh.querySelector(".mark"));
	old.querySelector(".when").replaceWith(fresh.querySelector(".when"));
	document.body.classList.remove("stale-page");
}

/* A page that says "well" while nobody answers any more would lie. */
function stale() {
	document.body.classList.add("stale-page");
	const when = document.getElementById("when");
	if (!when.dataset.stale) {
		when.dataset.stale = "yes";
		when.textContent = "No answer from the sidecar any more. What you see is " +
			when.textContent.replace("As of ", "of ");
	}
}

async function update() {
	clearTimeout(timer);
	if (!paused && !document.hidden) {
		try {
			exchange(await get("/"));
		} catch {
			stale();
		}
	}
	timer = setTimeout(update, INTERVAL_MS);
}

function show(node) {
	document.getElementById("answer").replaceWith(node);
}

function note(text) {
	const node = document.createElement("div"), p = document.createElement("p");
	node.id = "answer";
	node.setAttribute("role", "status");
	p.className = "bad";
	p.textContent = text;
	node.append(p);
	show(node);
}

/* An answer is not there at once: the page says "asking", and is asked again. */
async function ask(query) {
	const mine = ++asking, url = "/ask?" + query;
	try {
		for (;;) {
			const answer = (await get(url)).getElementById("answer");
			if (mine !== asking)
				return;
			show(document.importNode(answer, true));
			if (!("pending" in answer.dataset))
				return;
			await new Promise(resolve => setTimeout(resolve, PENDING_MS));
		}
	} catch (error) {
		if (mine === asking)
			note(String(error.message || error));
	}
}

const pause = document.getElementById("pause");
pause.hidden = false;
pause.addEventListener("click", () => {
	paused = !paused;
	pause.textContent = paused ? "Resume updates" : "Pause updates";
	if (!paused)
		update();
});
document.getElementById("ask")?.addEventListener("submit", event => {
	event.preventDefault();
	const query = new URLSearchParams(new FormData(event.target));
	history.replaceState(null, "", "/ask?" + query); /* to be shared, and found again */
	ask(query);
});
if (document.querySelector("#answer[data-pending]"))
	ask(new URLSearchParams(location.search));
document.addEventListener("visibilitychange", () => document.hidden || update());
timer = setTimeout(update, INTERVAL_MS);
