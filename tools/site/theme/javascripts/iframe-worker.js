// Lets the search of the site work from files: browsers start no Worker for a page without a server.
// This one runs the script of the worker in a hidden frame and passes its messages on. The name of
// this file keeps the offline plugin from loading such a script from another server.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const scope = frame.contentWindow;
      const load = (path) => new Promise((done, failed) => {
        const script = scope.document.createElement("script");
        script.src = new URL(path, this.base || url).href;
        script.onload = done;
        script.onerror = failed;
        scope.document.body.append(script);
      });
      // The page listens here, the script in the frame.
      scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", {data}));
      scope.importScripts = (...paths) =>
        paths.reduce((previous, path) => previous.then(() => load(path)), Promise.resolve());
      this.scope = scope;
      this.base = url;
      this.ready = load(url);
    }
    postMessage(data) {
      this.ready.then(() => this.scope.dispatchEvent(new this.scope.MessageEvent("message", {data})));
    }
    terminate() {}
  };
}
