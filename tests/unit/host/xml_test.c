// SPDX-License-Identifier: Apache-2.0
#include "host/store/xml.h"

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "tests/harness/t.h"

static enum sl_err note(void *arg, const char *path, const char *value)
{
    return buf_appendf(arg, "%s=%s|", path, value);
}

static void reads(const char *text, const char *want)
{
    struct buf seen = BUF_INIT;

    T_OK(xml_walk(text, strlen(text), note, &seen, t_err()));
    T_STR(buf_text(&seen), want);
    buf_release(&seen);
}

TEST(xml, what_S3_says)
{
    reads("<?xml version=\"1.0\"?>\n<a xmlns=\"http://x/\" b = '>'><b>1</b>"
          "<c/><b>2</b></a>\n<!-- end -->",
          "a/b=1|a/c=|a/b=2|a=|");
    reads("<Error><Code>No</Code>\n <Message>a &lt;b&gt; &amp;&quot;&apos;"
          "</Message></Error>",
          "Error/Code=No|Error/Message=a <b> &\"'|Error=|");
    reads("\xef\xbb\xbf<ns:a><ns:b>x</ns:b ></ns:a>", "a/b=x|a=|");
    reads("<a>&#65;&#x42;&#xe9;&#x20ac;&#x1F600;</a>",
          "a=AB\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80|");
    reads("<a>x<![CDATA[<&]]>y<!-- no -->z</a>", "a=x<&yz|");
    reads("<a><b>x</b>tail</a>", "a/b=x|a=tail|");
}

TEST(xml, what_is_none)
{
    static const char *const rows[][2] = {
        {"", "no element found"},
        {"   ", "no element found"},
        {"text", "syntax error"},
        {"<", "unclosed token"},
        {"<a", "unclosed token"},
        {"<a>", "no element found"},
        {"<a></b>", "mismatched tag"},
        {"<a><b></a></b>", "mismatched tag"},
        {"</a>", "not well-formed"},
        {"<a/><b/>", "junk after document element"},
        {"<a/>x", "junk after document element"},
        {"<a>&other;</a>", "undefined entity"},
        {"<a>&#0;</a>", "invalid character number"},
        {"<a>&#xd800;</a>", "invalid character number"},
        {"<a>&#x110000;</a>", "invalid character number"},
        {"<a>&#99999999999;</a>", "invalid character number"},
        {"<a>&#;</a>", "not well-formed"},
        {"<a>&#x;</a>", "not well-formed"},
        {"<a>&amp</a>", "not well-formed"},
        {"<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>", "document type"},
        {"<![CDATA[x]]>", "syntax error"},
        {"<a><![CDATA[x</a>", "unclosed CDATA section"},
        {"<a><!-- x</a>", "unclosed token"},
        {"<?xml", "unclosed token"},
        {"<a b></a>", "not well-formed"},
        {"<a b=c></a>", "not well-formed"},
        {"<a b=\"c></a>", "not well-formed"},
        {"<a>\xff</a>", "not well-formed"},
        {"<?xml version=\"1.0\" encoding=\"x\"?><", "unclosed token"},
        {"<a><b><c><d><e><f><g><h><i>", "deeply"},
    };
    struct sl_error err;

    for (size_t i = 0; i < SL_COUNT(rows); i++) {
        struct buf seen = BUF_INIT;

        err = (struct sl_error)SL_ERROR_INIT;
        T_FAILS(SL_ECORRUPT,
                xml_walk(rows[i][0], strlen(rows[i][0]), note, &seen, &err));
        T_HAS(err.text, rows[i][1]);
        buf_release(&seen);
    }
    T_FAILS(SL_ECORRUPT, xml_walk("<a>\0</a>", 8, note, NULL, &err));
    T_HAS(err.text, "byte 3: not well-formed");
}

TEST(xml, names_have_a_length_and_so_has_their_path)
{
    char text[2048] = "", name[XML_NAME + 2];
    struct buf seen = BUF_INIT;

    memset(name, 'n', sizeof(name));
    name[XML_NAME] = '\0';
    for (int i = 0; i < XML_DEPTH; i++)
        sprintf(text + strlen(text), "<%s>", name);
    for (int i = 0; i < XML_DEPTH; i++)
        sprintf(text + strlen(text), "</%s>", name);
    T_OK(xml_walk(text, strlen(text), note, &seen, t_err()));
    snprintf(text, sizeof(text), "<%sn/>", name);
    T_FAILS(SL_ECORRUPT, xml_walk(text, strlen(text), note, &seen, NULL));
    buf_release(&seen);
}

static enum sl_err stop(void *arg, const char *path, const char *value)
{
    return SL_ECANCELED;
}

TEST(xml, whoever_reads_may_end_it)
{
    T_FAILS(SL_ECANCELED, xml_walk("<a><b/></a>", 11, stop, NULL, NULL));
}

TEST(xml, out_of_memory)
{
    static const char text[] = "<a><b>some text &amp; more</b></a>";
    enum sl_err rc;

    for (uint64_t n = 1;; n++) {
        struct buf seen = BUF_INIT;

        sl_mem_fail_at(n);
        rc = xml_walk(text, sizeof(text) - 1, note, &seen, t_err());
        if (!sl_mem_failed()) {
            T_EQ(rc, SL_OK);
            buf_release(&seen);
            return;
        }
        T_EQ(rc, SL_ENOMEM);
        buf_release(&seen);
    }
}
