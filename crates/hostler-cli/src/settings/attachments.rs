//! `[attachments]`: limits of a message's attachments, and of stored contents.

use hostler_attachments::AttachmentLimits;

use super::parse_values::{ConfigValueError, parse_positive_count, parse_size};
use super::resolve::SettingLayers;
use super::{SettingKey, SettingsError};

impl SettingLayers {
    pub(super) fn attachment_limits(&self) -> Result<AttachmentLimits, SettingsError> {
        let defaults = AttachmentLimits::default();
        let bytes = |key, default| Ok(self.text(key, parse_bytes)?.unwrap_or(default));
        let count = |key, default| Ok(self.text(key, parse_positive_count)?.unwrap_or(default));
        let limits = AttachmentLimits {
            files: count(SettingKey::AttachmentFiles, defaults.files)?,
            file_bytes: bytes(SettingKey::AttachmentFileSize, defaults.file_bytes)?,
            total_bytes: bytes(SettingKey::AttachmentTotalSize, defaults.total_bytes)?,
            image_pixels: self
                .text(SettingKey::AttachmentImagePixels, parse_positive_count)?
                .map_or(defaults.image_pixels, |pixels| pixels as u64),
            image_edge_pixels: self
                .text(SettingKey::AttachmentImageEdge, parse_edge)?
                .unwrap_or(defaults.image_edge_pixels),
            image_bytes: bytes(SettingKey::AttachmentImageSize, defaults.image_bytes)?,
            pdf_pages: count(SettingKey::AttachmentPdfPages, defaults.pdf_pages)?,
            images_per_request: count(SettingKey::AttachmentImages, defaults.images_per_request)?,
            request_bytes: bytes(SettingKey::AttachmentRequestSize, defaults.request_bytes)?,
            ..defaults
        };
        if limits.file_bytes > limits.total_bytes {
            let (key, expected) = match self.get(SettingKey::AttachmentFileSize) {
                Some(_) => (
                    SettingKey::AttachmentFileSize,
                    format!("at most the limit for all files, {} bytes", limits.total_bytes),
                ),
                None => (
                    SettingKey::AttachmentTotalSize,
                    format!("at least the limit for one file, {} bytes", limits.file_bytes),
                ),
            };
            return Err(self.invalid_limit(key, expected));
        }
        Ok(limits)
    }

    /// Returns the maximum size of all stored contents.
    pub(super) fn content_quota_bytes(&self) -> Result<Option<u64>, SettingsError> {
        let quota = self.text(SettingKey::AttachmentQuota, parse_size)?;
        let total = self.attachment_limits()?.total_bytes;
        if quota.is_some_and(|quota| quota < total as u64) {
            let expected = format!("at least the limit for one message, {total} bytes");
            return Err(self.invalid_limit(SettingKey::AttachmentQuota, expected));
        }
        Ok(quota)
    }

    fn invalid_limit(&self, key: SettingKey, expected: String) -> SettingsError {
        let origin = self.get(key).map(|(_, origin)| origin.clone()).unwrap_or_default();
        SettingsError::Invalid { origin, expected }
    }
}

pub(super) fn parse_bytes(text: &str) -> Result<usize, ConfigValueError> {
    let too_large = |_| ConfigValueError::new("a size that this machine can address");
    parse_size(text).and_then(|size| usize::try_from(size).map_err(too_large))
}

fn parse_edge(text: &str) -> Result<u32, ConfigValueError> {
    let edge = text.parse().ok().filter(|edge| (1..=AttachmentLimits::MAX_IMAGE_EDGE_PIXELS).contains(edge));
    edge.ok_or_else(|| {
        ConfigValueError::new(format!("a number of pixels from 1 to {}", AttachmentLimits::MAX_IMAGE_EDGE_PIXELS))
    })
}

#[cfg(test)]
mod tests {
    use super::super::resolve::tests::{CONFIG, check};
    use super::*;

    #[test]
    fn attachment_limits_are_parsed_and_checked() {
        let file = "
            [attachments]
            files = 3
            file-size = '2 MiB'
            total-size = 4000000
            image-pixels = 1000
            image-edge = 2000
            image-size = '500KB'
            pdf-pages = 7
            images = 8
            request-size = '9 MB'
        ";
        let settings = check(&[], &[("HOSTLER_ATTACHMENTS_QUOTA", "1 GiB"), ("HOSTLER_ATTACHMENTS_FILES", "4")], file);
        let settings = settings.unwrap();
        let expected = AttachmentLimits {
            files: 4,
            file_bytes: 2 << 20,
            total_bytes: 4_000_000,
            image_pixels: 1000,
            image_edge_pixels: 2000,
            image_bytes: 500_000,
            pdf_pages: 7,
            images_per_request: 8,
            request_bytes: 9_000_000,
            ..AttachmentLimits::default()
        };
        assert_eq!((settings.attachment_limits, settings.content_quota_bytes), (expected, Some(1 << 30)));
        let defaults = check(&[], &[], "").unwrap();
        assert_eq!((defaults.attachment_limits, defaults.content_quota_bytes), (AttachmentLimits::default(), None));
    }

    #[test]
    fn invalid_limits_are_rejected_with_the_expected_value() {
        const SIZE: &str = "a size above 0 such as 1048576, \"500 KB\" or \"10 MiB\"";
        for (name, value, expected) in [
            ("files", "0", "a whole number above 0"),
            ("files", "-1", "a whole number above 0"),
            ("files", "1.5", "a whole number"),
            ("image-edge", "2001", "a number of pixels from 1 to 2000"),
            ("image-edge", "0", "a number of pixels from 1 to 2000"),
            ("file-size", "0", SIZE),
            ("file-size", "'ten'", SIZE),
            ("file-size", "'10 MiBs'", SIZE),
            ("file-size", "'-1'", SIZE),
            ("file-size", "'99999999999 GiB'", SIZE),
            ("file-size", "'é'", SIZE),
            ("file-size", "'21 MiB'", "at most the limit for all files, 20971520 bytes"),
            ("total-size", "'1 MiB'", "at least the limit for one file, 10485760 bytes"),
            ("quota", "'1 MiB'", "at least the limit for one message, 20971520 bytes"),
        ] {
            let error = check(&[], &[], &format!("[attachments]\n{name} = {value}")).unwrap_err().to_string();
            assert_eq!(error, format!("{CONFIG} line 2: `attachments.{name}` must be {expected}."));
        }
        let error = check(&[], &[("HOSTLER_ATTACHMENTS_IMAGE_EDGE", "wide")], "").unwrap_err().to_string();
        assert_eq!(error, "HOSTLER_ATTACHMENTS_IMAGE_EDGE must be a number of pixels from 1 to 2000.");
        assert!(
            check(&[], &[], "attachments = 5").unwrap_err().to_string().ends_with("`attachments` must be a table.")
        );
        let warnings = check(&[], &[], "[attachments]\nfils = 5").unwrap().warnings;
        assert_eq!(warnings, [format!("{CONFIG} line 2: `attachments.fils` is not a setting. Ignored.")]);
    }
}
