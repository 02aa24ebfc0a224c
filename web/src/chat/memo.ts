import { Component, h, type FunctionComponent } from "preact";

/** The component, drawn again only when `equal` says that its properties differ. */
export function memo<P extends object>(
  view: FunctionComponent<P>,
  equal: (a: P, b: P) => boolean,
): FunctionComponent<P> {
  class Memo extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      return !equal(this.props, next);
    }

    override render() {
      return h(view, this.props);
    }
  }
  return Memo as unknown as FunctionComponent<P>;
}
