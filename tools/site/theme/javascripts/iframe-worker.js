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
      this.scope = frame.contentWindow;
      // The page listens to this object, the script to the frame.
      this.scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", {data}));
      const script = this.scope.document.createElement("script");
      script.src = new URL(url, document.baseURI).href;
      this.ready = new Promise((done) => script.addEventListener("load", done));
      this.scope.document.body.append(script);
    }
    postMessage(data) {
      this.ready.then(() => this.scope.dispatchEvent(new MessageEvent("message", {data})));
    }
  };
}
