/** One tool call, as a line in the text that opens to its details. */
import { span } from "../i18n/moments.ts";
import { visible } from "../text/visible.ts";
import type { Step } from "../turn/frames.ts";
import { toolName } from "./tool_names.ts";
import { words } from "./words.ts";

const STATUS = { ok: words.stepOk, empty: words.stepEmpty, error: words.stepError } as const;

export function StepLine({ step }: { step: Step }) {
  return (
    <details class={`step ${step.status}`}>
      <summary>
        <span class="step-mark" aria-hidden="true" />
        <span class="step-tool">{toolName(step)}</span>
        <bdi class="step-label">{visible(step.label)}</bdi>
        <span class="step-status">{STATUS[step.status]}</span>
      </summary>
      <dl>
        {step.tool !== "" && (
          <>
            <dt>{words.stepTool}</dt>
            <dd>
              <code>{visible(step.tool)}</code> <bdi>{visible(step.label)}</bdi>
            </dd>
          </>
        )}
        {step.detail !== "" && (
          <>
            <dt>{words.stepResult}</dt>
            <dd dir="auto">{step.detail}</dd>
          </>
        )}
        <dt>{words.stepStatus}</dt>
        <dd>{STATUS[step.status]}</dd>
        <dt>{words.stepTime}</dt>
        <dd>{span(step.ms)}</dd>
      </dl>
    </details>
  );
}
