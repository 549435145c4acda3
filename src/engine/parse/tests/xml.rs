use super::*;
use crate::engine::parse::{Parser, XmlText};

fn parse(text: &str) -> Parsed {
    XmlText.parse(text)
}

/// Returns a decision with one action `read` around `args`.
fn with(args: &str) -> String {
    format!("<decision mode=\"act\"><action name=\"read\">{args}</action></decision>")
}

fn read(args: &Value) -> Value {
    json!({"mode": "act", "do": [["read", args]]})
}

#[test]
fn well_formed() {
    let table = [
        (
            "<decision mode=\"act\">\n <think> t </think>\n <action name=\"read\">\n  <arg name=\"path\">a b</arg>\n </action>\n</decision>",
            json!({"mode": "act", "why": "t", "do": [["read", {"path": "a b"}]]}),
        ),
        (
            "<DECISION mode='act'><Action name='read'/></Decision>",
            read(&json!({})),
        ),
        (
            "<decision><actions><action name='a'></action><call name='b'><arg name='x'/></call></actions></decision>",
            json!({"mode": "act", "do": [["a", {}], ["b", {"x": ""}]]}),
        ),
        (
            "<decision><thought>a</thought><!-- <action> --><think>b</think><reflection>r</reflection><final_answer>\n42\n</final_answer></decision>",
            json!({"mode": "final", "why": "a\nb", "answer": "42", "meta": {"reflection": "r"}}),
        ),
        ("<decision mode=\"wait\"/>", json!({"mode": "wait"})),
        (
            "<think><decision></think><decision mode=\"wait\"><think>w</think></decision>",
            json!({"mode": "wait", "why": "w"}),
        ),
    ];
    for (text, decision) in table {
        assert_eq!(direct(parse(text)), decision, "{text}");
    }
}

#[test]
fn values() {
    let table = [
        (
            "<arg name='s'>a < b && c <d> </e></arg>",
            json!({"s": "a < b && c <d> </e>"}),
        ),
        (
            "<arg name='s'>&lt;&gt;&amp;&quot;&apos;&#65;&#x1F600; &nbsp; &amp &#xD800;</arg>",
            json!({"s": "<>&\"'A😀 &nbsp; &amp &#xD800;"}),
        ),
        (
            "<arg name='s'>a<![CDATA[</arg> &lt;]]>b</ARG >",
            json!({"s": "a</arg> &lt;b"}),
        ),
        (
            "<arg name='s'>\n  if x:\n    y\n  </arg>",
            json!({"s": "  if x:\n    y"}),
        ),
        ("<arg name='s'>\r\nx\r\n\r\n</arg>", json!({"s": "x\r\n"})),
        ("<arg name='s'> x </arg>", json!({"s": " x "})),
        (
            "<arg name='s'>12</arg><arg name='n' type='json'> 12 </arg>",
            json!({"s": "12", "n": 12}),
        ),
        (
            "<arg name='l' type='json'>[\"a &amp; b\", {\"k\": null}]</arg>",
            json!({"l": ["a & b", {"k": null}]}),
        ),
        (
            "<arg name='a &gt; b' type=\"text\">x</arg>",
            json!({"a > b": "x"}),
        ),
    ];
    for (args, values) in table {
        assert_eq!(direct(parse(&with(args))), read(&values), "{args}");
    }
}

#[test]
fn repairs() {
    use Extraction::*;
    let whole = with("<arg name='a'>b</arg>");
    let table = [
        (format!("```xml\n{whole}\n```"), Fenced),
        (format!("I do:\n{whole}\nand <so> on"), Extracted),
        (with("<arg name='a' type='json'>'b'</arg>"), PythonLiteral),
        (whole.replace("</decision>", ""), Truncated),
        (whole.replace("</action></decision>", ""), Truncated),
        (whole.replace("</action>", ""), Truncated),
        (
            format!("```xml\n{}\n```", whole.replace("</decision>", "")),
            Truncated,
        ),
    ];
    for (text, mode) in table {
        assert_eq!(
            repaired(parse(&text)),
            (read(&json!({"a": "b"})), mode),
            "{text}"
        );
    }
}

#[test]
fn what_has_no_meaning_is_named() {
    let text = "<decision mode='act' v='1'>so <plan><action name='no'/></plan></plan><action name='read' x=''/></decision>";
    let parsed = parse(text);
    let ignored = r#"the attribute "v", the text "so", the element "plan", the closing tag "plan", the attribute "x""#;
    assert_eq!(
        parsed.diagnostics.as_ref().unwrap().details,
        format!("Ignored: {ignored}.")
    );
    assert_eq!(repaired(parsed), (read(&json!({})), Extraction::Direct));
}

#[test]
fn refusals() {
    use Trouble::*;
    let table = [
        ("", EmptyOutput, None),
        ("The answer is 42.", InvalidXml, None),
        ("<final_answer>42</final_answer>", InvalidXml, None),
        ("<decisions></decisions>", InvalidXml, None),
        (
            "<decision><think>t</think></decision>",
            MissingActionOrFinal,
            None,
        ),
        (
            "<decision><final_answer> </final_answer></decision>",
            MissingActionOrFinal,
            None,
        ),
        (
            "<decision mode='final'><think>t</think></decision>",
            MissingRequiredField,
            Some("final_answer"),
        ),
        (
            "<decision mode='act'><final_answer>x</final_answer></decision>",
            MissingRequiredField,
            Some("action"),
        ),
        (
            "<decision mode='go'><final_answer>x</final_answer></decision>",
            InvalidActionSchema,
            Some("mode"),
        ),
        (
            "<decision><answer>x</answer><final>y</final></decision>",
            InvalidActionSchema,
            Some("final_answer"),
        ),
        (
            "<decision><answer>x</answer><action name='a'/></decision>",
            InvalidActionSchema,
            None,
        ),
        (
            "<decision mode='wait'/><decision mode='wait'/>",
            InvalidXml,
            None,
        ),
        ("A <decision> is: <decision mode='wait'/>", InvalidXml, None),
        ("<decision mode=act></decision>", InvalidXml, None),
        ("<decision mode='a' mode='b'></decision>", InvalidXml, None),
        (
            "<decision><action>read</action></decision>",
            MissingRequiredField,
            Some("actions[0].name"),
        ),
        (
            "<decision><action name='a'/><action name='b'>x</action></decision>",
            InvalidActionSchema,
            Some("actions[1]"),
        ),
        (
            "<decision><action name='a'><path>x</path></action></decision>",
            InvalidActionSchema,
            Some("actions[0]"),
        ),
        (
            "<decision><action name='a'></tool></decision>",
            InvalidActionSchema,
            Some("actions[0]"),
        ),
        (
            "<decision><action name='a'><arg>x</arg></action></decision>",
            InvalidActionSchema,
            Some("actions[0].args"),
        ),
        (
            "<decision><action name='a'><arg name='x'/><arg name='x'/></action></decision>",
            InvalidActionSchema,
            Some("actions[0].args"),
        ),
        (
            "<decision><action name='a'><arg name='x' type='json'>x</arg></action></decision>",
            InvalidActionSchema,
            Some("actions[0].args"),
        ),
        (
            "<decision><action name='a'><arg name='x' type='json'>1 2</arg></action></decision>",
            InvalidActionSchema,
            Some("actions[0].args"),
        ),
        (
            "<decision><action name='a'><arg name='x' type='int'>1</arg></action></decision>",
            InvalidActionSchema,
            Some("actions[0].args"),
        ),
        // Truncated.
        ("<decision", InvalidXml, None),
        ("<think>perhaps <decision mode='wait'/>", InvalidXml, None),
        ("<decision mode='act", InvalidXml, None),
        ("<decision><think>t", InvalidXml, None),
        ("<decision><plan>t</decision>", InvalidXml, None),
        ("<decision><!-- t", InvalidXml, None),
        (
            "<decision><action name='clear'>",
            InvalidActionSchema,
            Some("actions[0]"),
        ),
        (
            "<decision><action name='a'><arg name='x'>rm -r /data/t",
            InvalidXml,
            Some("actions[0].args"),
        ),
        (
            "<decision><action name='a'><arg name='x'><![CDATA[rm</arg></action></decision>",
            InvalidXml,
            Some("actions[0].args"),
        ),
    ];
    for (text, wrong, path) in table {
        assert_eq!(
            code(parse(text)),
            (wrong, path.map(str::to_owned)),
            "{text}"
        );
    }
}
